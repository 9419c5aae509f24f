"""SQL on the databases of tests, past the store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from warrener_store.databases.address import SqliteAddress, parse_address

RULE_BROKEN = (sqlite3.IntegrityError, asyncpg.IntegrityConstraintViolationError)
"""What a database raises for a row that breaks a rule."""


def dialect_of(url: str) -> str:
    """The name that the store gives to the database's kind."""
    return "sqlite" if url.startswith("sqlite") else "postgres"


async def run_sql(url: str, text: str) -> list[tuple[Any, ...]]:
    """Run one statement, commit it, and return its rows."""
    address = parse_address(url)
    if isinstance(address, SqliteAddress):
        with closing(connect_sqlite(address.path)) as file:
            return file.execute(text).fetchall()
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(text)]
    finally:
        await connection.close()


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """A connection that commits each statement and keeps foreign keys, as those of the store do."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection

"""Brings the tables of a database to a revision: all steps in one transaction, one migrator at a time."""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import asyncpg

from warrener_contracts.postgres_address import PostgresAddress
from warrener_contracts.postgres_sessions import open_session
from warrener_store.databases.address import SqliteAddress, parse_address, server_settings
from warrener_store.databases.failures import translate_errors
from warrener_store.databases.sqlite import SqliteDriver
from warrener_store.errors import StoreError
from warrener_store.migrations import VERSION_TABLE, read_steps
from warrener_store.statements import statement

_ONE_MIGRATOR = 0x77617272656E  # the advisory lock of PostgreSQL by which migrators wait for each other
_MIGRATOR_SECONDS = 30.0  # for which a migrator waits for another in SQLite

_VERSION_COLUMN = f"{VERSION_TABLE}.version_num"
_MAKE_VERSION_TABLE = f"""
CREATE TABLE {VERSION_TABLE} (
    version_num varchar(32) NOT NULL,
    CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num)
);
"""
"""As Alembic, which took the first step until it was plain SQL, made it."""

_Query = Callable[[str], Awaitable[Iterable[Any]]]
_Run = Callable[[str], Awaitable[object]]


class UnknownRevision(StoreError):
    """The history of the tables has no such step, or the tables are past it."""


async def migrate(url: str, to: str = "head") -> None:
    """Bring the tables up to revision `to`; a repeat or a failure changes nothing."""
    address = parse_address(url)
    with translate_errors(address):
        if isinstance(address, SqliteAddress):
            await _migrate_sqlite(address, to)
        else:
            await _migrate_postgres(address, to)


async def _migrate_postgres(address: PostgresAddress, to: str) -> None:
    connection = await open_session(address, asyncpg.connect, server_settings=server_settings(address))
    try:
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_ONE_MIGRATOR})")
            await _take_steps("postgres", to, connection.fetch, connection.execute)
    finally:
        await connection.close()


async def _migrate_sqlite(address: SqliteAddress, to: str) -> None:
    connection = await SqliteDriver(address, busy_seconds=_MIGRATOR_SECONDS).open()

    async def run(script: str) -> None:
        for each in _split(script):
            await connection.execute_fetchall(each)

    try:
        await connection.execute("PRAGMA foreign_keys = OFF")  # a step may replace a referenced table
        await connection.execute("BEGIN IMMEDIATE")
        await _take_steps("sqlite", to, connection.execute_fetchall, run)
        await connection.commit()
    finally:
        await connection.close()  # rolls back what is not committed, and leaves one file behind


def _split(script: str) -> Iterator[str]:
    """The statements of a script: the driver's own way to run a script commits what is open."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    yield pending


async def _take_steps(dialect: str, to: str, query: _Query, run: _Run) -> None:
    steps = read_steps(dialect)
    columns = {row[0] for row in await query(statement(dialect, "schema_columns"))}
    if _VERSION_COLUMN not in columns:
        await run(_MAKE_VERSION_TABLE)
    at = max((row[0] for row in await query(statement(dialect, "schema_version"))), default="")
    ahead = [revision for revision in steps if revision > at]
    if to not in ("head", at, *ahead):
        expected = " or ".join(('"head"', *ahead))
        raise UnknownRevision(
            f"expected {expected}, got {to}; name one of these: the tables have revision {at or 'none'},"
            " and a step is not taken back"
        )
    for revision in ahead:
        if to == "head" or revision <= to:
            await run(steps[revision])
            await run(f"DELETE FROM {VERSION_TABLE};")  # noqa: S608 - made of constants alone
            await run(f"INSERT INTO {VERSION_TABLE} VALUES ('{revision}');")  # noqa: S608 - as above

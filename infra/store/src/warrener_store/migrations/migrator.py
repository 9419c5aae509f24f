"""Brings the tables of a database to a revision: all steps in one transaction, one migrator at a time."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from warrener_contracts.postgres_address import PostgresAddress
from warrener_contracts.postgres_sessions import open_session
from warrener_store.databases.address import SqliteAddress, parse_address, server_settings
from warrener_store.databases.failures import translate_errors
from warrener_store.databases.sqlite import SqliteDriver
from warrener_store.errors import StoreError
from warrener_store.migrations import VERSION_TABLE

_ONE_MIGRATOR = 0x77617272656E  # the advisory lock of PostgreSQL by which migrators wait for each other
_MIGRATOR_SECONDS = 30.0  # for which a migrator waits for another in SQLite


class UnknownRevision(StoreError):
    """The history of the tables has no such step."""


async def migrate(url: str, to: str = "head") -> None:
    """Bring the tables to revision `to`, up or down ("base": none). A repeat changes nothing."""
    address = parse_address(url)
    with translate_errors(address), _unwrap_driver_errors():
        engine = open_engine(address)
        try:
            async with engine.connect() as connection, connection.begin():
                await connection.execute(text(_lock(address)))
                await connection.run_sync(_run_migrations, to)
        finally:
            await engine.dispose()


def alembic_config() -> Config:
    """Alembic's configuration; the steps are part of this package."""
    config = Config()
    config.set_main_option("script_location", "warrener_store:migrations")
    config.set_main_option("path_separator", "os")
    return config


def open_engine(address: PostgresAddress | SqliteAddress) -> AsyncEngine:
    """An SQLAlchemy engine: for Alembic, and for inspecting the tables that it made."""
    if isinstance(address, SqliteAddress):
        driver = SqliteDriver(address, busy_seconds=_MIGRATOR_SECONDS)
        # Transactions end where they begin: nothing is to be reset.
        return create_async_engine(
            URL.create("sqlite+aiosqlite", database=str(address.path)),
            async_creator=driver.open,
            poolclass=NullPool,
            pool_reset_on_return=None,
        )
    return create_async_engine(
        URL.create("postgresql+asyncpg"),
        async_creator=partial(
            open_session, address, asyncpg.connect, server_settings=server_settings(address)
        ),
        poolclass=NullPool,
    )


@contextmanager
def _unwrap_driver_errors() -> Generator[None]:
    """Raise errors as the driver raised them: SQLAlchemy wraps them, for asyncpg twice."""
    try:
        yield
    except DBAPIError as error:
        origin = error.orig or error
        raise (origin.__cause__ or origin) from error


def _lock(address: PostgresAddress | SqliteAddress) -> str:
    if isinstance(address, SqliteAddress):
        return "BEGIN IMMEDIATE"  # the driver begins no transaction by itself
    return f"SELECT pg_advisory_xact_lock({_ONE_MIGRATOR})"


def _run_migrations(connection: Connection, to: str) -> None:
    config = alembic_config()
    config.attributes["connection"] = connection
    opts = {"version_table": VERSION_TABLE}
    current = MigrationContext.configure(connection, opts=opts).get_current_revision() or ""
    down = to == "base" or (to != "head" and to < current)
    try:
        (command.downgrade if down else command.upgrade)(config, to)
    except CommandError as error:
        raise UnknownRevision(f'expected a revision such as "head" or "0001", got {to}: {error}') from error

"""How every connection to a SQLite file is set up, and how one is taken."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import aiosqlite
from sqlalchemy import URL, event
from sqlalchemy.connectors.asyncio import AsyncAdapt_dbapi_connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random

from warrener_store.address import SqliteAddress

BUSY_SECONDS = 8.0
"""How long one process waits for another's transaction before it says that the store is unavailable."""

_WAL = "PRAGMA journal_mode = WAL"  # readers and the writer do not wait for each other
_SETTINGS = (
    "PRAGMA synchronous = FULL",  # what is committed survives a loss of power
    "PRAGMA foreign_keys = ON",
)


def sqlite_engine(
    address: SqliteAddress, *, connections: int = 4, busy_seconds: float = BUSY_SECONDS
) -> AsyncEngine:
    """An engine whose driver begins no transaction by itself."""
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(address.path)),
        pool_size=connections,
        max_overflow=0,
        pool_reset_on_return=None,  # transactions end where they begin
        connect_args={"timeout": busy_seconds, "isolation_level": None},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: AsyncAdapt_dbapi_connection, _entry: ConnectionPoolEntry) -> None:
        connection.run_async(lambda driver: _into_wal(driver, busy_seconds))
        cursor = connection.cursor()
        try:
            for setting in _SETTINGS:
                cursor.execute(setting)
        finally:
            cursor.close()

    _ = set_up  # SQLAlchemy holds it
    return engine


async def _into_wal(driver: aiosqlite.Connection, busy_seconds: float) -> None:
    """Several who open a new file at once are turned away here without SQLite's own waiting: so we wait."""
    async for trying in AsyncRetrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        ),
        wait=wait_random(0.005, 0.05),
        stop=stop_after_delay(busy_seconds),
        reraise=True,
    ):
        with trying:
            await driver.execute(_WAL)


@asynccontextmanager
async def acquire_connection(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    """A connection of the pool, given back at the end.

    Opening one is not interrupted: the driver's thread would hand an open file to a caller who has gone.
    """
    opening = asyncio.ensure_future(_open(engine))
    try:
        connection = await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()
        raise
    try:
        yield connection
    finally:
        await connection.close()


async def _open(engine: AsyncEngine) -> AsyncConnection:
    with unwrap_driver_errors():
        return await engine.connect().start()


@contextmanager
def unwrap_driver_errors() -> Generator[None]:
    """What goes wrong inside, as the driver said it: SQLAlchemy wraps that, for asyncpg twice."""
    try:
        yield
    except DBAPIError as error:
        origin = error.orig or error
        raise (origin.__cause__ or origin) from error
    except NoConnectionFree as error:
        raise TimeoutError(str(error)) from error

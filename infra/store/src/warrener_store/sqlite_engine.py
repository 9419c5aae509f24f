"""How every connection to a SQLite file is set up, and how one is taken."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from warrener_store.address import SqliteAddress

BUSY_SECONDS = 30.0
"""How long one process waits for another's transaction before it says that the store is unavailable."""

_SETTINGS = (
    "PRAGMA journal_mode = WAL",  # readers and the writer do not wait for each other
    "PRAGMA synchronous = FULL",  # what is committed survives a loss of power
    "PRAGMA foreign_keys = ON",
)


def sqlite_engine(
    address: SqliteAddress, *, connections: int = 4, busy_seconds: float = BUSY_SECONDS
) -> AsyncEngine:
    """An engine whose driver begins no transaction by itself."""
    engine = create_async_engine(
        address.url,
        pool_size=connections,
        max_overflow=0,
        pool_reset_on_return=None,  # transactions end where they begin
        connect_args={"timeout": busy_seconds, "isolation_level": None},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        try:
            for setting in _SETTINGS:
                cursor.execute(setting)
        finally:
            cursor.close()

    _ = set_up  # SQLAlchemy holds it
    return engine


@asynccontextmanager
async def taken(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
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
    return await engine.connect().start()

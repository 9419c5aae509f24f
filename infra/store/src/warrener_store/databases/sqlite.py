"""SQLite: a file for one host. Several processes may use it, one writes at a time.

A batch is one transaction, begun IMMEDIATE, so that what it has read cannot change before it writes. SQLite
is a library, not a server, so a transaction runs a statement for each row: its fastest way.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast
from uuid import UUID

import aiosqlite
from sqlalchemy import URL, event
from sqlalchemy.connectors.asyncio import AsyncAdapt_dbapi_connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random

from warrener_store.databases.address import SqliteAddress
from warrener_store.databases.failures import MIGRATE, translate_errors
from warrener_store.databases.session import Change, Rows, SqlSession
from warrener_store.encoding import encode, escape
from warrener_store.errors import StoreNotMigrated
from warrener_store.mapping import SQLITE_CODEC
from warrener_store.migrations import check_version
from warrener_store.statements import Positional, positional, statement

BUSY_SECONDS = 8.0
"""Seconds that one process waits for another's transaction before it reports the store as unavailable."""

_WAL = "PRAGMA journal_mode = WAL"  # readers and the writer do not wait for each other
_SETTINGS = (
    "PRAGMA synchronous = FULL",  # what is committed survives a loss of power
    "PRAGMA foreign_keys = ON",
)


class WriteTransaction:
    """The statements between BEGIN and COMMIT. Each call is one visit to the connection's thread."""

    def __init__(self, driver: aiosqlite.Connection) -> None:
        self._driver = driver

    async def query(self, name: str, *parameters: Any) -> list[sqlite3.Row]:
        """Run the statement of this name; the rows that it returns."""
        prepared = _statement(name)
        return list(await self._driver.execute_fetchall(prepared.text, prepared.arrange(parameters)))

    async def query_text(self, text: str, *parameters: Any) -> list[sqlite3.Row]:
        """Run this statement, whose parameters are `$1`, `$2` …; the rows that it returns."""
        prepared = positional(text)
        return list(await self._driver.execute_fetchall(prepared.text, prepared.arrange(parameters)))

    async def run(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run the statement of this name for each of these rows."""
        change = _statement(name)
        batch = [change.arrange(row) for row in rows]
        if batch:
            await self._driver.executemany(change.text, batch)

    async def count(self, moved: Counter[tuple[str, str]]) -> None:
        """Move the counts of (job type as the column stores it, state)."""
        changes = ((job_type, state, jobs) for (job_type, state), jobs in sorted(moved.items()) if jobs)
        await self.run("count_moved", changes)


class SqliteSession(SqlSession):
    """Reads on a few connections, and one writer's transaction at a time."""

    codec = SQLITE_CODEC

    def __init__(self, address: SqliteAddress, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._address = address
        self._busy_seconds = busy_seconds
        self._engine = sqlite_engine(address, busy_seconds=busy_seconds)
        # SQLite lets waiting writers poll; in this process they queue.
        self._writer = asyncio.Lock()

    async def start(self) -> None:
        """Connect. Raises StoreNotMigrated if the tables are not those of this version."""
        if not await asyncio.to_thread(self._address.path.exists):
            raise StoreNotMigrated(f"expected a store at {self._address}, got no such file; {MIGRATE}")
        check_version([row[0] for row in await self._query("schema_version")], self._address)

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""
        await self._engine.dispose()

    async def time(self) -> datetime:
        """The clock of this host, which all processes that share the file have."""
        return datetime.now(UTC)

    async def ping(self) -> None:
        """Take the write lock. Raises StoreUnavailable if that fails in time."""
        async with self._writing():
            pass

    async def _query(self, name: str, *parameters: Any) -> Rows:
        return await self._read(_statement(name), parameters)

    async def _query_text(self, text: str, parameters: Sequence[Any]) -> Rows:
        return await self._read(positional(text), parameters)

    async def _read(self, prepared: Positional, parameters: Sequence[Any]) -> Rows:
        with translate_errors(self._address):
            async with acquire_connection(self._engine) as connection:
                driver = await _driver(connection)
                return list(await driver.execute_fetchall(prepared.text, prepared.arrange(parameters)))

    async def _change(self, name: str, *parameters: Any) -> Rows:
        async with self._writing() as transaction:
            return await transaction.query(name, *parameters)

    async def _change_together(self, *changes: Change) -> None:
        async with self._writing() as transaction:
            for name, parameters in changes:
                await transaction.run(name, [parameters])

    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            async with self._writing() as transaction:
                await transaction.run(name, rows)

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator[WriteTransaction]:
        """A transaction, committed at the end or rolled back on any error."""
        with translate_errors(self._address):
            async with asyncio.timeout(
                self._busy_seconds
            ):  # all that wait for the lock wait at the same time
                await self._writer.acquire()
            try:
                async with acquire_connection(self._engine) as connection:
                    driver = await _driver(connection)
                    try:
                        await driver.execute("BEGIN IMMEDIATE")
                        yield WriteTransaction(driver)
                        await driver.commit()
                    except BaseException:
                        await driver.rollback()
                        raise
            finally:
                self._writer.release()

    def _ids(self, ids: Collection[UUID]) -> str:
        return encode([str(each) for each in ids])

    def _names(self, names: Collection[str]) -> str:
        return encode([escape(name) for name in names])


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
    """Switch to WAL, with retries: SQLite refuses it at once, without waiting, if several processes open a
    new file together."""
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

    Opening is not interrupted: the driver's thread would hand an open file to a caller that was cancelled.
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
    """Raise errors as the driver raised them: SQLAlchemy wraps them, for asyncpg twice."""
    try:
        yield
    except DBAPIError as error:
        origin = error.orig or error
        raise (origin.__cause__ or origin) from error
    except NoConnectionFree as error:
        raise TimeoutError(str(error)) from error


async def _driver(connection: AsyncConnection) -> aiosqlite.Connection:
    """The driver's connection: a statement through SQLAlchemy visits its thread four times, here once."""
    return cast("aiosqlite.Connection", (await connection.get_raw_connection()).driver_connection)


@cache
def _statement(name: str) -> Positional:
    return positional(statement("sqlite", name))

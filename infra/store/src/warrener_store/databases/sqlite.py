"""SQLite: a file for one host. Several processes may use it, one writes at a time.

A batch is one transaction, begun IMMEDIATE, so that what it has read cannot change before it writes. SQLite
is a library, not a server, so a transaction runs a statement for each row: its fastest way.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from random import uniform
from time import monotonic, sleep
from typing import Any
from uuid import UUID

import aiosqlite

from warrener_store.databases.address import SqliteAddress
from warrener_store.databases.failures import MIGRATE, translate_errors
from warrener_store.databases.pool import ConnectionPool
from warrener_store.databases.session import Change, Rows
from warrener_store.databases.transaction import TransactionalSession, WriteTransaction, sqlite_statement
from warrener_store.encoding import encode, escape
from warrener_store.errors import StoreNotMigrated
from warrener_store.migrations import check_columns, check_version
from warrener_store.statements import Positional, positional

BUSY_SECONDS = 8.0
"""Seconds that one process waits for another's transaction before it reports the store as unavailable."""

_CONNECTIONS = 4
_FREE_CONNECTION_SECONDS = 30.0  # seconds that a statement waits while other statements have all connections

_WAL = "PRAGMA journal_mode = WAL"  # readers and the writer do not wait for each other
_SETTINGS = (
    "PRAGMA synchronous = FULL",  # what is committed survives a loss of power
    "PRAGMA foreign_keys = ON",
)


class SqliteDriver:
    """Opens and closes connections that begin no transaction by themselves. Each has a thread of its own."""

    def __init__(self, address: SqliteAddress, *, busy_seconds: float = BUSY_SECONDS) -> None:
        # Absolute: connections are opened at any time, and the process may have changed its folder.
        self._path, self._busy_seconds = address.path.absolute(), busy_seconds

    async def open(self) -> aiosqlite.Connection:
        """A new connection. Raises what sqlite3 raises.

        Opening is not interrupted: the connection's thread would hand an open file to a caller that was
        cancelled.
        """
        opening = asyncio.ensure_future(self._open())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait({opening})
            if not opening.cancelled() and opening.exception() is None:
                await self.close(opening.result())
            raise

    async def _open(self) -> aiosqlite.Connection:
        connection = aiosqlite.Connection(self._connect, iter_chunk_size=64)
        thread = connection._thread  # noqa: SLF001 - aiosqlite has no other way to it
        thread.daemon = True  # a process that ends without closing its store does not wait for it
        try:
            return await connection
        except sqlite3.Error:
            await asyncio.to_thread(thread.join)  # it reports its end to this event loop, which may end first
            raise

    def _connect(self) -> sqlite3.Connection:
        """Open the file, in the connection's thread."""
        connection = sqlite3.connect(self._path, timeout=self._busy_seconds, isolation_level=None)
        try:
            _into_wal(connection, self._busy_seconds)
            for setting in _SETTINGS:
                connection.execute(setting)
        except BaseException:
            connection.close()
            raise
        return connection

    def is_broken(self, connection: aiosqlite.Connection) -> bool:
        """True if the connection is closed, or in a transaction that could not be rolled back."""
        try:
            return connection.in_transaction
        except ValueError:  # of aiosqlite: it is closed
            return True

    async def is_alive(self, connection: aiosqlite.Connection) -> bool:
        """True: a file needs no check."""
        del connection
        return True

    def abort(self, connection: aiosqlite.Connection) -> None:
        """Let the connection's thread close it, after the statement that it runs."""
        # aiosqlite does not say what its future holds
        connection.stop()  # pyright: ignore[reportUnknownMemberType]

    async def close(self, connection: aiosqlite.Connection) -> None:
        """Close the connection: interrupt a query that still runs, roll back an open transaction."""
        with suppress(sqlite3.Error, ValueError):  # ValueError: it is closed
            await connection.interrupt()
            await connection.close()


def _into_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch to WAL, with retries: SQLite refuses it at once, without waiting, if several processes open a
    new file together."""
    give_up_at = monotonic() + busy_seconds
    while True:
        try:
            connection.execute(_WAL)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() >= give_up_at:
                raise
            sleep(uniform(0.005, 0.05))  # noqa: S311 - in the connection's thread, so that others are out of step
        else:
            return


class SqliteSession(TransactionalSession):
    """Reads on a few connections, and one writer's transaction at a time."""

    def __init__(self, address: SqliteAddress, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._address = address
        self._busy_seconds = busy_seconds
        self._pool = ConnectionPool(
            SqliteDriver(address, busy_seconds=busy_seconds), _CONNECTIONS, max_wait=_FREE_CONNECTION_SECONDS
        )
        # SQLite lets waiting writers poll; in this process they queue.
        self._writer = asyncio.Lock()

    async def start(self) -> None:
        """Connect. Raises StoreNotMigrated if the tables are not those of this version."""
        if not await asyncio.to_thread(self._address.path.exists):
            raise StoreNotMigrated(f"expected a store at {self._address}, got no such file; {MIGRATE}")
        revision = check_version([row[0] for row in await self._query("schema_version")], self._address)
        columns = {row[0]: row[1] for row in await self._query("schema_columns")}
        check_columns(columns, "sqlite", revision, self._address)

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""
        await self._pool.close()

    async def time(self) -> datetime:
        """The clock of this host, which all processes that share the file have."""
        return datetime.now(UTC)

    async def ping(self) -> None:
        """Take the write lock. Raises StoreUnavailable if that fails in time, or the disk is full."""
        self._require_room()
        async with self._writing():
            pass

    async def _query(self, name: str, *parameters: Any) -> Rows:
        return await self._read(sqlite_statement(name), parameters)

    async def _query_text(self, text: str, parameters: Sequence[Any]) -> Rows:
        return await self._read(positional(text), parameters)

    async def _read(self, prepared: Positional, parameters: Sequence[Any]) -> Rows:
        with self._timed("read"), translate_errors(self._address):
            async with self._pool.acquire() as driver:
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
        with self._timed("write"), translate_errors(self._address):
            async with asyncio.timeout(
                self._busy_seconds
            ):  # all that wait for the lock wait at the same time
                await self._writer.acquire()
            try:
                async with self._pool.acquire() as driver:
                    try:
                        await driver.execute("BEGIN IMMEDIATE")
                        yield WriteTransaction(driver)
                        await driver.commit()
                    except Exception:  # one that is cancelled is rolled back as its connection is closed
                        await driver.rollback()
                        raise
            finally:
                self._writer.release()

    def _ids(self, ids: Collection[UUID]) -> str:
        return encode([str(each) for each in ids])

    def _names(self, names: Collection[str]) -> str:
        return encode([escape(name) for name in names])

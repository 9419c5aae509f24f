"""The store in a SQLite database in memory, for tests and simulations: the statements that ship, without
threads and files."""

import sqlite3
import weakref
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from warrener_store.databases.address import SqliteAddress
from warrener_store.databases.failures import translate_errors
from warrener_store.databases.session import Rows
from warrener_store.databases.transaction import WriteTransaction
from warrener_store.migrations import read_steps
from warrener_store.sqlite import SqliteStore
from warrener_store.statements import Positional

if TYPE_CHECKING:
    import aiosqlite


class MemoryStore(SqliteStore):
    """A new, empty store, which only the process has that made it. `start` and `close` change nothing.

    No operation suspends its caller, so each is atomic, and an event loop in virtual time needs no thread.
    """

    def __init__(self) -> None:
        self._address = SqliteAddress(Path(":memory:"))
        # Whichever thread collects the garbage closes it.
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=512, check_same_thread=False
        )
        weakref.finalize(self, self.connection.close)
        self.connection.deserialize(_empty_database())
        self.connection.execute("PRAGMA foreign_keys = ON")

    async def start(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """The rows stay: other users may share them."""

    async def _read(self, prepared: Positional, parameters: Sequence[Any]) -> Rows:
        with self._timed("read"), translate_errors(self._address):
            return self.connection.execute(prepared.text, prepared.arrange(parameters)).fetchall()

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator[WriteTransaction]:
        with self._timed("write"), translate_errors(self._address), self.connection:
            self.connection.execute("BEGIN")
            yield WriteTransaction(cast("aiosqlite.Connection", _InlineConnection(self.connection)))


class _InlineConnection:
    """The methods of aiosqlite's connection that a transaction uses, without its thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def execute_fetchall(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        return self._connection.execute(sql, parameters).fetchall()

    async def executemany(self, sql: str, batch: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, batch)


@cache
def _empty_database() -> bytes:
    """A database with the tables of this version."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("\n".join(read_steps("sqlite").values()))
        return connection.serialize()

"""Transactions of SQLite: a batch reads and writes in one, a statement for each row."""

import sqlite3
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

from warrener_store.databases.session import Rows, SqlSession
from warrener_store.encoding import encode
from warrener_store.mapping import SQLITE_CODEC
from warrener_store.statements import Positional, positional, statement

if TYPE_CHECKING:
    import aiosqlite


class WriteTransaction:
    """The statements between BEGIN and COMMIT. Each call is one visit to the connection's thread."""

    def __init__(self, driver: "aiosqlite.Connection") -> None:
        self._driver = driver

    async def query(self, name: str, *parameters: Any) -> list[sqlite3.Row]:
        """Run the statement of this name; the rows that it returns."""
        prepared = sqlite_statement(name)
        return list(await self._driver.execute_fetchall(prepared.text, prepared.arrange(parameters)))

    async def query_text(self, text: str, *parameters: Any) -> list[sqlite3.Row]:
        """Run this statement, whose parameters are `$1`, `$2` …; the rows that it returns."""
        prepared = positional(text)
        return list(await self._driver.execute_fetchall(prepared.text, prepared.arrange(parameters)))

    async def run(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run the statement of this name for each of these rows."""
        change = sqlite_statement(name)
        batch = [change.arrange(row) for row in rows]
        if batch:
            await self._driver.executemany(change.text, batch)

    async def count(self, moved: Counter[tuple[str, str, str]]) -> None:
        """Move the counts of (job type and queue as the columns store them, state)."""
        changes = ((*kind, jobs) for kind, jobs in sorted(moved.items()) if jobs)
        await self.run("count_moved", changes)


class TransactionalSession(SqlSession):
    """A session whose batches are transactions."""

    codec = SQLITE_CODEC

    @abstractmethod
    def _writing(self) -> AbstractAsyncContextManager[WriteTransaction]:
        """A transaction, committed at the end or rolled back on any error."""

    async def _claim(self, question: tuple[Any, ...], change: str, *values: Any) -> Rows:
        """Run `change` for the first columns of the rows that this statement finds, and for `values`; return
        these rows, as they were before."""
        if not await self._query(*question):
            return []  # most calls find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = await transaction.query(*question)
            await transaction.run(change, [(encode([row[0] for row in found]), *values)])
        return found


@cache
def sqlite_statement(name: str) -> Positional:
    """The statement of this name for SQLite's driver."""
    return positional(statement("sqlite", name))

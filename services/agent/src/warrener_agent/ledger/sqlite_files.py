"""SQLite files as every agent process opens them, and the thread in which one is used."""

import asyncio
import sqlite3
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from time import monotonic, sleep
from typing import Any, TypeVar
from uuid import UUID

from warrener_agent.ledger.port import LedgerUnavailable

R = TypeVar("R")
BUSY_TIMEOUT = 5.0
"""Seconds to wait for the claims' lock, which is held for milliseconds: longer means that something is
wrong."""

COMPLETIONS = """
    CREATE TABLE IF NOT EXISTS warrener_completions (
        job_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, result TEXT NOT NULL, follow_ups TEXT NOT NULL,
        started_at TEXT NOT NULL, finished_at TEXT NOT NULL
    ) WITHOUT ROWID
"""
COMPLETIONS_BY_END = """
    CREATE INDEX IF NOT EXISTS warrener_completions_finished ON warrener_completions (finished_at)
"""


def open_file(path: Path, *, patience: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """A connection that commits only to the disk, and begins and ends transactions only where we say so."""
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    _prepare(connection, monotonic() + BUSY_TIMEOUT)
    return connection


def _prepare(connection: sqlite3.Connection, deadline: float) -> None:
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(COMPLETIONS)
            connection.execute(COMPLETIONS_BY_END)
        except sqlite3.OperationalError as error:
            # SQLite does not wait where several agents turn a new file to WAL at the same moment.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                connection.close()
                raise
            sleep(0.02)
        else:
            return


@contextmanager
def immediate_transaction(connection: sqlite3.Connection) -> Generator[None]:
    """A transaction that holds the write lock from its first moment: it never has to start over."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def translate_outages(path: Path) -> Generator[None]:
    """A locked, full or vanished database is LedgerUnavailable."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        raise LedgerUnavailable(f"expected the ledger {path} to answer, got: {error}; try again") from error


def timestamp_text(value: datetime) -> str:
    """A time as a column: UTC, and texts compare as the times do."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def to_sqlite(value: Any) -> Any:
    """A parameter of a handler's statement as SQLite can keep it."""
    if isinstance(value, Enum):
        return to_sqlite(value.value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal | PurePath):
        return str(value)
    return value


def rows_as_dicts(cursor: sqlite3.Cursor) -> Iterable[dict[str, Any]]:
    """The rows of a result by column name."""
    names = [column[0] for column in cursor.description or ()]
    return (dict(zip(names, row, strict=True)) for row in cursor)


class WorkerThread:
    """One thread of its own, so that a slow disk never stops the event loop. What is begun there ends there,
    even if the asker has gone meanwhile."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], R]) -> R:
        """Do it after what was asked before."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def submit(self, work: Callable[[], None]) -> None:
        """Do it after what was asked before; nobody waits for it."""
        if self._thread is not None:
            self._thread.submit(work)

    def end(self) -> None:
        """Let the thread go once it has finished."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None

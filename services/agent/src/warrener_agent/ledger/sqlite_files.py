"""The two files of the SQLite ledger: how they are opened, and handlers' transactions in one of them."""

import asyncio
import sqlite3
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from time import monotonic, sleep
from typing import Any, TypeVar
from uuid import UUID

from warrener_agent.ledger import statements
from warrener_agent.ledger.port import Claim, Completion, LedgerUnavailable
from warrener_agent.ledger.rows import encode_child_jobs

R = TypeVar("R")
_SQL = statements.ledger_statements("sqlite")
_BUSY_TIMEOUT = 5.0  # seconds to wait for the claims' lock, which is held for milliseconds
_LOCK_TIMEOUT = 0.25
"""Seconds that one try for the handlers' lock waits; the attempt can be stopped between two tries."""


class LedgerFiles:
    """The handlers' file (`effects`) and the claims' file; used from one thread."""

    def __init__(self, effects: Path, claims: Path, patience: float = _BUSY_TIMEOUT) -> None:
        """Open both files; after an error neither stays open.

        `patience`: the seconds for which a statement waits for the lock of the handlers' file.
        """
        with ExitStack() as opened:
            self.effects, self.claims = (
                opened.enter_context(closing(_open_file(path, timeout)))
                for path, timeout in ((effects, patience), (claims, _BUSY_TIMEOUT))
            )
            opened.pop_all()

    def make_tables(self) -> None:
        """Make missing tables of the claims' file, under its lock, for which no handler's statement waits."""
        with immediate_transaction(self.claims):
            self.claims.execute(_SQL["claims"])
            self.claims.execute(_SQL["checkpoints"])
            _add_columns(self.claims)
            self.claims.execute(_SQL["claimed"])

    def begin(self) -> bool:
        """Take the write lock of the handlers' file; False if another process has it."""
        try:
            self.effects.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return False
            raise
        return True

    def record(self, completion: Completion, claim: Claim, agent_id: str) -> bool:
        """Commit with the completion, if the claim still holds: no agent can take it meanwhile."""
        try:
            with immediate_transaction(self.claims):
                mine = self.claims.execute(
                    _SQL["still_mine"], (str(claim.job_id), claim.attempt, agent_id)
                ).fetchone()
                if (
                    not mine
                    or self.effects.execute(_SQL["record"], encode_completion(completion)).rowcount != 1
                ):
                    return False
                self.effects.execute("COMMIT")
                return True
        finally:
            self.rollback()

    def rollback(self) -> None:
        if self.effects.in_transaction:
            self.effects.execute("ROLLBACK")

    def close(self) -> None:
        try:
            self.rollback()
        finally:
            self.effects.close()
            self.claims.close()


def _open_file(path: Path, patience: float) -> sqlite3.Connection:
    """Open a connection that commits to the disk, and leaves the beginning and end of transactions to us."""
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    deadline = monotonic() + _BUSY_TIMEOUT
    with ExitStack() as opened:
        opened.callback(connection.close)
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("PRAGMA foreign_keys=ON")
                connection.execute(_SQL["completions"])
                connection.execute(_SQL["completions_by_end"])
            except sqlite3.OperationalError as error:
                # SQLite does not wait if several agents turn a new file to WAL at the same moment.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                    raise
                sleep(0.02)
            else:
                opened.pop_all()
                return connection


def _add_columns(claims: sqlite3.Connection) -> None:
    """Add the columns that a table of an earlier version lacks; its rows count as claimed now."""
    known = {row[1] for row in claims.execute("PRAGMA table_info(warrener_claims)")}
    if "claimed_at" not in known:
        now = timestamp_text(datetime.now(UTC))
        claims.execute(f"ALTER TABLE warrener_claims ADD COLUMN claimed_at TEXT NOT NULL DEFAULT '{now}'")
    if "next_attempt" not in known:
        claims.execute("ALTER TABLE warrener_claims ADD COLUMN next_attempt INTEGER")


@contextmanager
def immediate_transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Hold the write lock from the start of the transaction, so that it never has to start over."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def translate_outages(path: Path) -> Generator[None]:
    """Raise LedgerUnavailable for a locked, full or vanished database."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        raise LedgerUnavailable(f"expected the ledger {path} to answer, got: {error}; try again") from error


def timestamp_text(value: datetime) -> str:
    """Write a time as a column, in UTC: the texts compare as the times do."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def encode_completion(completion: Completion) -> list[Any]:
    """Encode a completion as a row."""
    job_id, attempt, result, child_jobs, *times = completion
    return [str(job_id), attempt, result, encode_child_jobs(child_jobs), *map(timestamp_text, times)]


class FileWorker:
    """The files, which one thread opens and uses, so that a slow disk never blocks the event loop. Work that
    was begun in it is finished, even if the caller is cancelled."""

    def __init__(self, name: str, path: Path, open_: Callable[[], LedgerFiles]) -> None:
        self._name, self.path, self._open = name, path, open_
        self._thread: ThreadPoolExecutor | None = None
        self.files: LedgerFiles | None = None

    async def run(self, work: Callable[[LedgerFiles], R]) -> R:
        """Open the files if need be, run `work` after all earlier work, and return its result."""

        def opened() -> R:
            if self.files is None:
                with translate_outages(self.path):
                    self.files = self._open()
            return work(self.files)

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        return await asyncio.get_running_loop().run_in_executor(self._thread, opened)

    def submit(self, work: Callable[[LedgerFiles], None]) -> None:
        """Run `work` after all earlier work, without waiting for it, if the files are open then."""
        if self._thread is not None:
            self._thread.submit(lambda: None if self.files is None else work(self.files))

    async def close(self) -> None:
        """Close the files after all earlier work, even if cancelled, and the thread. May be called twice."""
        files, self.files = self.files, None
        thread, self._thread = self._thread, None
        if thread is None:
            return

        def close() -> None:
            late, self.files = self.files, None  # opened by a `run` that was cancelled
            for one in (files, late):
                if one is not None:
                    one.close()

        try:
            await asyncio.get_running_loop().run_in_executor(thread, close)
        finally:
            thread.shutdown(wait=False)


class WriteLock:
    """The lock of the handlers' file: an asyncio lock within this process, SQLite's lock among processes."""

    def __init__(self, effects: Path, claims: Path) -> None:
        self._turn = asyncio.Lock()
        self._worker = FileWorker(
            "warrener-effects", effects, lambda: LedgerFiles(effects, claims, _LOCK_TIMEOUT)
        )
        self.path, self.run = effects, self._worker.run

    async def acquire(self) -> None:
        """Wait for the write lock, and begin. Only the attempt's own timeout limits the wait."""
        await self._turn.acquire()
        try:
            while not await self.run(LedgerFiles.begin):
                pass
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock: a running statement is interrupted, uncommitted ones are rolled back."""
        self._interrupt()
        self._worker.submit(LedgerFiles.rollback)
        self._turn.release()

    def _interrupt(self) -> None:
        if self._worker.files is not None:
            self._worker.files.effects.interrupt()

    async def delete_old(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` older completions, while no handler writes."""

        def delete(files: LedgerFiles) -> int:
            values = {"before": timestamp_text(before), "limit": limit}
            deleted = files.effects.execute(_SQL["forget_completions"], values).rowcount
            files.effects.execute("COMMIT")
            return deleted

        await self.acquire()
        try:
            with translate_outages(self.path):
                return await self.run(delete)
        finally:
            self.release()

    async def close(self) -> None:
        """Roll back an open transaction, and close the files. May be called twice."""
        self._interrupt()
        await self._worker.close()


class SqliteTransaction(statements.SerialTransaction):
    """An `OpenTransaction`: the one writer of the handlers' file, from its first statement to its end.

    The lock is taken with the first statement, so that a handler that has not written yet blocks no other.
    """

    def __init__(self, lock: WriteLock, claim: Claim, agent_id: str) -> None:
        super().__init__()
        self._lock, self._claim, self._agent_id = lock, claim, agent_id
        self._begun = False

    async def _execute(self, statement: str, parameters: statements.Parameters) -> list[Mapping[str, Any]]:
        return await self._lock.run(lambda files: _execute(files.effects, statement, parameters))

    async def _record(self, completion: Completion) -> bool:
        with translate_outages(self._lock.path):
            return await self._lock.run(lambda files: files.record(completion, self._claim, self._agent_id))

    async def _begin(self) -> None:
        self._require_open()
        if not self._begun:
            await self._lock.acquire()
            self._begun = True
            if self._over:  # the attempt ended during the wait
                self._lock.release()
            self._require_open()

    async def end(self) -> None:
        if self._begun and not self._over:
            self._lock.release()
        self._over = True


def _execute(
    connection: sqlite3.Connection, statement: str, parameters: statements.Parameters
) -> list[Mapping[str, Any]]:
    if not isinstance(parameters, Mapping):
        if parameters:
            connection.executemany(statement, map(_to_sqlite_values, parameters))
            return []
        if statements.number_parameters(statement).names:  # an empty list runs it zero times
            return []
        parameters = {}
    cursor = connection.execute(statement, _to_sqlite_values(parameters))
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _to_sqlite_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _to_sqlite(value) for name, value in parameters.items()}


def _to_sqlite(value: Any) -> Any:
    """Convert a parameter of a handler's statement to a type that SQLite can store."""
    if isinstance(value, Enum):
        return _to_sqlite(value.value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, UUID | Decimal | PurePath) else value

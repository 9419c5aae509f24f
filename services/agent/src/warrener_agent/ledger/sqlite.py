"""The ledger in SQLite files, for the agents of one host.

There are two files. `ledger.db` is the database of the handlers' own writes, with the completions of their
transactions, so that both commit at once. `ledger.db-claims` holds claims, leases and the completions without
a transaction. SQLite allows one writer a file: in a single file, a handler that keeps its transaction open
for a minute would block claims and renewals for a minute, and leases would run out. With two, handlers wait
for handlers alone, and a claim waits for no longer than another claim takes.

The fence holds across both files: an agent that records a completion in `ledger.db` holds the write lock of
the claims from the check of its claim until after the commit, and claims check the completions under that
lock.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from warrener_agent.ledger.port import (
    Claim,
    ClaimResult,
    Completion,
    DeletedRows,
    Failure,
    LedgerError,
    LedgerUnavailable,
    Renewal,
    SavedCheckpoint,
)
from warrener_agent.ledger.rows import claim_results, highest_attempts
from warrener_agent.ledger.sqlite_files import (
    FORGET_COMPLETIONS,
    ClaimsFile,
    WorkerThread,
    columns,
    immediate_transaction,
    open_files,
    rows_as_dicts,
    timestamp_text,
    to_sqlite,
    translate_outages,
)
from warrener_agent.ledger.statements import number_parameters, reject_transaction_control

R = TypeVar("R")

_LOCK_TIMEOUT = 0.25
"""Seconds that one try for the write lock waits; the attempt can be stopped between two tries."""

_STILL_MINE = """
    SELECT 1 FROM warrener_claims AS c
    WHERE job_id = ? AND attempt = ? AND agent_id = ? AND cancelled_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM warrener_completions AS d WHERE d.job_id = c.job_id)
"""
_RECORD = "INSERT OR IGNORE INTO warrener_completions VALUES (?, ?, ?, ?, ?, ?)"


class SqliteLedger:
    """A `Ledger` in the file `path` and the claims' file beside it, for any number of agents of this host."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claims_path = path.with_name(path.name + "-claims")
        self._worker = WorkerThread("warrener-ledger")
        self._lock = WriteLock(path, self._claims_path)
        self._file: ClaimsFile | None = None

    async def start(self) -> None:
        await self._worker.run(self._open)

    def _open(self) -> None:
        """Open the files in the worker's thread, where `close` finds them even if `start` was cancelled."""
        if self._file is not None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with translate_outages(self._path):
                self._file = open_files(self._path, self._claims_path, ClaimsFile)
        except OSError as error:
            raise LedgerUnavailable(f"expected to write the ledger {self._path}, got: {error}") from error

    async def close(self) -> None:
        await self._lock.close()
        file, self._file = self._file, None

        def close() -> None:
            late, self._file = self._file, None  # opened by a `start` that was cancelled
            for one in (file, late):
                if one is not None:
                    one.close()

        await self._worker.end(close)

    async def ping(self) -> None:
        await self._run(lambda file: file.ping())

    async def time(self) -> datetime:
        """Return the time of this host, which all agents that share the file have."""
        self._started()
        return datetime.now(UTC)

    async def claim(self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta) -> list[ClaimResult]:
        wanted = highest_attempts(claims)
        granted, found, saved = await self._run(lambda file: file.claim(wanted, agent_id, lease))
        return claim_results(claims, granted, found, saved)

    async def renew(
        self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta, even_awaited: bool = False
    ) -> Renewal:
        return Renewal(
            await self._run(lambda file: file.renew(claims, agent_id, lease, even_awaited=even_awaited))
        )

    async def complete(self, completions: Sequence[Completion], *, agent_id: str) -> set[UUID]:
        return await self._run(lambda file: file.complete(completions, agent_id))

    async def fail(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        return await self._run(lambda file: file.fail(failures, agent_id))

    async def fail_abandoned(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        return await self._run(lambda file: file.fail(failures, agent_id, abandoned=True))

    async def save_checkpoints(
        self, checkpoints: Sequence[SavedCheckpoint], *, agent_id: str, now: datetime
    ) -> set[UUID]:
        return await self._run(lambda file: file.save_checkpoints(checkpoints, agent_id, now))

    async def release(self, claims: Sequence[Claim], *, agent_id: str) -> None:
        await self._run(lambda file: file.release(claims, agent_id))

    async def cancel(self, job_ids: Collection[UUID], *, now: datetime) -> None:
        await self._run(lambda file: file.cancel(job_ids, now))

    @asynccontextmanager
    async def transaction(
        self, claim: Claim, *, agent_id: str, time_left: float = inf
    ) -> "AsyncGenerator[SqliteTransaction]":
        del time_left  # a file's lock ends with the process of this host that holds it
        self._started()
        one = SqliteTransaction(self._lock, claim, agent_id)
        try:
            yield one
        finally:
            one.end()

    async def delete_old(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> DeletedRows:
        """Delete old rows; waits for the handlers' transactions if their file has old completions."""
        deleted, there = await self._run(lambda file: file.delete_old(before, after, limit))
        if not there:
            return deleted
        completions = await self._lock.delete_old(before, limit)
        following = after or datetime.min.replace(tzinfo=UTC) if completions == limit else None
        return DeletedRows(
            deleted.rows + completions, deleted.completions + completions, deleted.after or following
        )

    async def _run(self, work: Callable[[ClaimsFile], R]) -> R:
        file = self._started()

        def guarded() -> R:
            with translate_outages(self._path):
                return work(file)

        return await self._worker.run(guarded)

    def _started(self) -> ClaimsFile:
        if self._file is None:
            raise LedgerUnavailable("expected a started ledger, got one that is closed; call start() first")
        return self._file


class _Files:
    """The handlers' file for writing, and the claims' file for the fence; used from one thread."""

    def __init__(self, effects: sqlite3.Connection, claims: sqlite3.Connection) -> None:
        self.effects, self._claims = effects, claims

    def begin(self) -> bool:
        """Take the write lock; False if another process has it."""
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
            with immediate_transaction(self._claims):
                mine = self._claims.execute(
                    _STILL_MINE, (str(claim.job_id), claim.attempt, agent_id)
                ).fetchone()
                if not mine or self.effects.execute(_RECORD, columns(completion)).rowcount != 1:
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
            self._claims.close()


class WriteLock:
    """The lock of the handlers' file: an asyncio lock within this process, SQLite's lock among processes."""

    def __init__(self, path: Path, claims_path: Path) -> None:
        self.path = path
        self._claims_path = claims_path
        self._turn = asyncio.Lock()
        self._worker = WorkerThread("warrener-effects")
        self._files: _Files | None = None

    async def acquire(self) -> None:
        """Wait for the write lock, and begin. Only the attempt's own timeout limits the wait."""
        await self._turn.acquire()
        try:
            while not await self.run(_Files.begin):
                pass
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock. A running statement is interrupted, and all that was not committed rolled
        back."""
        if self._files is not None:
            self._files.effects.interrupt()
        self._worker.submit(self._rollback)
        self._turn.release()

    async def run(self, work: Callable[[_Files], R]) -> R:
        """Run `work` in the thread of the files."""

        def opened() -> R:
            if self._files is None:
                with translate_outages(self.path):
                    self._files = open_files(self.path, self._claims_path, _Files, patience=_LOCK_TIMEOUT)
            return work(self._files)

        return await self._worker.run(opened)

    def _rollback(self) -> None:
        if self._files is not None:
            self._files.rollback()

    async def delete_old(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` older completions, while no handler writes."""
        await self.acquire()
        try:
            return await self.run(lambda files: self._forget(files, before, limit))
        finally:
            self.release()

    def _forget(self, files: _Files, before: datetime, limit: int) -> int:
        with translate_outages(self.path):
            values = {"before": timestamp_text(before), "limit": limit}
            deleted = files.effects.execute(FORGET_COMPLETIONS, values).rowcount
            files.effects.execute("COMMIT")
            return deleted

    async def close(self) -> None:
        """Roll back an open transaction, and close the files. May be called twice."""
        files, self._files = self._files, None
        if files is not None:
            files.effects.interrupt()

        def close() -> None:
            late, self._files = self._files, None  # opened by a `run` that was cancelled
            for one in (files, late):
                if one is not None:
                    one.close()

        await self._worker.end(close)


class SqliteTransaction:
    """An `OpenTransaction`: the one writer of the handlers' file, from its first statement to its end.

    The lock is taken with the first statement, so that a handler that has not written yet blocks no other.
    """

    def __init__(self, lock: WriteLock, claim: Claim, agent_id: str) -> None:
        self._lock, self._claim, self._agent_id = lock, claim, agent_id
        self._one_at_a_time = asyncio.Lock()
        self._begun = self._over = False

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        reject_transaction_control(statement)
        async with self._one_at_a_time:
            await self._begin()
            return await self._lock.run(lambda files: _execute(files.effects, statement, parameters))

    async def complete(self, completion: Completion) -> bool:
        async with self._one_at_a_time:
            await self._begin()
            # From here on the commit runs to its end, even if this task is cancelled.
            work = self._lock.run(lambda files: self._record(files, completion))
            recording = asyncio.ensure_future(work)
            try:
                return await asyncio.shield(recording)
            finally:
                if not recording.done():
                    await asyncio.wait({recording})
                self.end()

    def _record(self, files: _Files, completion: Completion) -> bool:
        with translate_outages(self._lock.path):
            return files.record(completion, self._claim, self._agent_id)

    async def _begin(self) -> None:
        if self._over:
            raise LedgerError("expected an open transaction, got one that is over: its attempt has ended")
        if not self._begun:
            await self._lock.acquire()
            self._begun = True
            if self._over:  # the attempt ended during the wait
                self._lock.release()
                raise LedgerError("expected an open transaction, got one that is over: its attempt has ended")

    def end(self) -> None:
        """Roll back a transaction that was not completed. May be called twice."""
        if self._begun and not self._over:
            self._lock.release()
        self._over = True


def _execute(
    connection: sqlite3.Connection,
    statement: str,
    parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    if isinstance(parameters, Mapping):
        values = {name: to_sqlite(value) for name, value in parameters.items()}
        return list(rows_as_dicts(connection.execute(statement, values)))
    if not parameters:
        # An empty list of mappings for a statement with parameters: run it zero times.
        return (
            [] if number_parameters(statement).names else list(rows_as_dicts(connection.execute(statement)))
        )
    connection.executemany(
        statement, ({name: to_sqlite(value) for name, value in one.items()} for one in parameters)
    )
    return []

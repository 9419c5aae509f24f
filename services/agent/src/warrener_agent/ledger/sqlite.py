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
from functools import partial
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
    LedgerUnavailable,
    Renewal,
    SavedCheckpoint,
)
from warrener_agent.ledger.rows import claim_results, highest_attempts
from warrener_agent.ledger.sqlite_files import (
    ClaimsFile,
    FileWorker,
    columns,
    immediate_transaction,
    open_files,
    rows_as_dicts,
    timestamp_text,
    to_sqlite,
    translate_outages,
)
from warrener_agent.ledger.statements import (
    Parameters,
    SerialTransaction,
    ledger_statements,
    number_parameters,
)

R = TypeVar("R")

_LOCK_TIMEOUT = 0.25
"""Seconds that one try for the write lock waits; the attempt can be stopped between two tries."""
_SQL = ledger_statements("sqlite")


class SqliteLedger:
    """A `Ledger` in the file `path` and the claims' file beside it, for any number of agents of this host."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claims_path = path.with_name(path.name + "-claims")
        self._worker = FileWorker("warrener-ledger", path, self._open)
        self._lock = WriteLock(path, self._claims_path)

    async def start(self) -> None:
        await self._worker.run(lambda _: None)

    def _open(self) -> ClaimsFile:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return open_files(self._path, self._claims_path, ClaimsFile)
        except OSError as error:
            raise LedgerUnavailable(f"expected to write the ledger {self._path}, got: {error}") from error

    async def close(self) -> None:
        await self._lock.close()
        await self._worker.close()

    async def ping(self) -> None:
        await self._run(lambda file: file.ping())

    async def time(self) -> datetime:
        """Return the time of this host, which all agents that share the file have."""
        self._require_started()
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
        self._require_started()
        one = SqliteTransaction(self._lock, claim, agent_id)
        try:
            yield one
        finally:
            await one.end()

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
        self._require_started()

        def guarded(file: ClaimsFile) -> R:
            with translate_outages(self._path):
                return work(file)

        return await self._worker.run(guarded)

    def _require_started(self) -> None:
        if self._worker.files is None:
            raise LedgerUnavailable("expected a started ledger, got one that is closed; call start() first")


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
                    _SQL["still_mine"], (str(claim.job_id), claim.attempt, agent_id)
                ).fetchone()
                if not mine or self.effects.execute(_SQL["record"], columns(completion)).rowcount != 1:
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
        self._turn = asyncio.Lock()
        open_ = partial(open_files, path, claims_path, _Files, patience=_LOCK_TIMEOUT)
        self._worker: FileWorker[_Files] = FileWorker("warrener-effects", path, open_)
        self.run = self._worker.run

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
        self._interrupt()
        self._worker.submit(_Files.rollback)
        self._turn.release()

    def _interrupt(self) -> None:
        if self._worker.files is not None:
            self._worker.files.effects.interrupt()

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
            deleted = files.effects.execute(_SQL["forget_completions"], values).rowcount
            files.effects.execute("COMMIT")
            return deleted

    async def close(self) -> None:
        """Roll back an open transaction, and close the files. May be called twice."""
        self._interrupt()
        await self._worker.close()


class SqliteTransaction(SerialTransaction):
    """An `OpenTransaction`: the one writer of the handlers' file, from its first statement to its end.

    The lock is taken with the first statement, so that a handler that has not written yet blocks no other.
    """

    def __init__(self, lock: WriteLock, claim: Claim, agent_id: str) -> None:
        super().__init__()
        self._lock, self._claim, self._agent_id = lock, claim, agent_id
        self._begun = False

    async def _execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        return await self._lock.run(lambda files: _execute(files.effects, statement, parameters))

    async def _record(self, completion: Completion) -> bool:
        return await self._lock.run(lambda files: self._record_in(files, completion))

    def _record_in(self, files: _Files, completion: Completion) -> bool:
        with translate_outages(self._lock.path):
            return files.record(completion, self._claim, self._agent_id)

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
    connection: sqlite3.Connection, statement: str, parameters: Parameters
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

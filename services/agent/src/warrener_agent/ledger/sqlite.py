"""The ledger in SQLite files, for the agents of one host.

Two files. `ledger.db` is the database of the handlers' own writes; the completions of their transactions
stand in it, so that both commit at once. `ledger.db-claims` holds claims, leases and the completions that
come without a transaction. SQLite knows one writer a file: with all in one file, a handler that keeps its
transaction open for a minute would keep every agent from claiming and renewing for a minute, and leases would
run out. So handlers wait for handlers alone, and a claim waits for nobody longer than a claim takes.

The fence holds across both: whoever records a completion in `ledger.db` holds the write lock of the claims
from the moment he has looked at his claim until after his commit, and whoever claims looks at the completions
under that lock.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from warrener_agent.ledger.checkpoints import SavedCheckpoint
from warrener_agent.ledger.claim_results import claim_results, highest_attempts
from warrener_agent.ledger.port import (
    Claim,
    ClaimResult,
    Completion,
    DeletedRows,
    Failure,
    LedgerUnavailable,
    Renewal,
)
from warrener_agent.ledger.sqlite_claims import ClaimsFile
from warrener_agent.ledger.sqlite_files import WorkerThread, open_file, translate_outages
from warrener_agent.ledger.sqlite_transaction import SqliteTransaction, WriteLock

R = TypeVar("R")


class SqliteLedger:
    """A `Ledger` in the file `path` and its neighbour; any number of agents of this host may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claims_path = path.with_name(path.name + "-claims")
        self._worker = WorkerThread("warrener-ledger")
        self._lock = WriteLock(path, self._claims_path)
        self._file: ClaimsFile | None = None

    async def start(self) -> None:
        if self._file is None:
            self._file = await self._worker.run(self._open)

    def _open(self) -> ClaimsFile:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with translate_outages(self._path):
                return ClaimsFile(open_file(self._path), open_file(self._claims_path))
        except OSError as error:
            raise LedgerUnavailable(f"expected to write the ledger {self._path}, got: {error}") from error

    async def close(self) -> None:
        await self._lock.close()
        if self._file is not None:
            file, self._file = self._file, None
            await self._worker.run(file.close)
        self._worker.end()

    async def ping(self) -> None:
        await self._run(lambda file: file.ping())

    async def time(self) -> datetime:
        """The clock of this host, which all who share the file have."""
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
    ) -> AsyncGenerator[SqliteTransaction]:
        del time_left  # whoever holds a file's lock is a process of this host: nothing is left when it ends
        self._started()
        one = SqliteTransaction(self._lock, claim, agent_id)
        try:
            yield one
        finally:
            one.end()

    async def delete_old(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> DeletedRows:
        """Waits for the handlers' transactions where their file has old completions."""
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

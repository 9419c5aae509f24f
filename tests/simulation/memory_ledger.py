"""The SQLite ledger that ships, in memory and without threads, so that virtual time can drive it.

A handler's statement is an effect by name, which counts once the completion is recorded. Handlers do not wait
for each other's transactions, as in PostgreSQL.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from warrener_agent.ledger.port import Claim, Completion, LedgerUnavailable
from warrener_agent.ledger.sqlite import SqliteLedger, read_completions
from warrener_agent.ledger.sqlite_files import FileWorker, LedgerFiles
from warrener_runtime.clock import Clock, SystemClock

R = TypeVar("R")
IN_MEMORY = Path(":memory:")


class Entry(NamedTuple):
    """The ledger's knowledge of one job."""

    holder: str | None
    failure: str | None
    completion: Completion | None


class Entries:
    """The rows of the ledger, by job."""

    def __init__(self, files: LedgerFiles) -> None:
        self._files = files

    def get(self, job_id: UUID) -> Entry | None:
        query = "SELECT agent_id, failure FROM warrener_claims WHERE job_id = ?"
        for holder, failure in self._files.claims.execute(query, (str(job_id),)).fetchall():
            return Entry(holder, failure, read_completions(self._files, [job_id]).get(job_id))
        return None

    def __getitem__(self, job_id: UUID) -> Entry:
        if (entry := self.get(job_id)) is None:
            raise KeyError(job_id)
        return entry


class InlineWorker(FileWorker):
    """Works at once, in the event loop."""

    def __init__(self, files: LedgerFiles) -> None:
        super().__init__("inline", IN_MEMORY, lambda: files)
        self.memory = self.files = files

    async def run(self, work: Callable[[LedgerFiles], R]) -> R:
        return work(self.memory)

    def submit(self, work: Callable[[LedgerFiles], None]) -> None:
        work(self.memory)


class MemoryLedger(SqliteLedger):
    """Shared by all agents of a simulation; `away`: it does not answer."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(IN_MEMORY)
        self.away = False
        self._clock = clock or SystemClock()
        self.files = LedgerFiles(IN_MEMORY, IN_MEMORY)
        self.files.make_tables()
        self.entries = Entries(self.files)
        self.files.effects.execute("CREATE TABLE effects (job_id TEXT, effect TEXT)")
        self._worker = self._lock._worker = worker = InlineWorker(self.files)
        self._lock.run = worker.run

    def _now(self) -> datetime:
        return self._clock.now()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def _run(self, work: Callable[[LedgerFiles], R]) -> R:
        if self.away:
            raise LedgerUnavailable("expected a database, got none")
        return await super()._run(work)

    @asynccontextmanager
    async def transaction(  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] - another OpenTransaction
        self, claim: Claim, *, agent_id: str, time_left: float = inf
    ) -> "AsyncGenerator[MemoryTransaction]":
        await self.ping()
        yield MemoryTransaction(self, claim, agent_id)

    @property
    def total_changes(self) -> int:
        return self.files.claims.total_changes + self.files.effects.total_changes

    @property
    def effects(self) -> list[tuple[UUID, str]]:
        rows = self.files.effects.execute("SELECT job_id, effect FROM effects")
        return [(UUID(job), effect) for job, effect in rows]


class MemoryTransaction:
    """Effects that count once the completion is recorded."""

    def __init__(self, ledger: MemoryLedger, claim: Claim, agent_id: str) -> None:
        self._ledger, self._claim, self._agent_id = ledger, claim, agent_id
        self._pending: list[tuple[str, str]] = []

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        self._pending.append((str(self._claim.job_id), statement))
        return []

    async def complete(self, completion: Completion) -> bool:
        await self._ledger.ping()
        files = self._ledger.files
        begun = files.begin()
        assert begun
        try:
            files.effects.executemany("INSERT INTO effects VALUES (?, ?)", self._pending)
            return files.record(completion, self._claim, self._agent_id)
        finally:
            files.rollback()

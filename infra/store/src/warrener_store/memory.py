"""The state store in memory: for tests, for the simulation, and as the plainest statement of what a store is.

Nothing here awaits anything, so each operation is atomic. It passes the same conformance suite as the
databases.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.encoding import decode, encode
from warrener_store.job_list_query import position_of
from warrener_store.latest_by_key import latest_by_key
from warrener_store.memory_dead_letters import MemoryDeadLetters
from warrener_store.memory_escalations import MemoryEscalations
from warrener_store.memory_job_extras import MemoryJobExtras
from warrener_store.memory_parked import MemoryParked
from warrener_store.memory_queued import MemoryQueued
from warrener_store.memory_successes import succeeded_job, success_save
from warrener_store.port import Inserted, Save, StateStore, StoreRefused
from warrener_store.queued import DISPATCHED
from warrener_store.records.successes import IN_FLIGHT
from warrener_store.retention.memory import MemoryRetention
from warrener_store.rows import (
    REQUEST_FIELDS,
    AgentRow,
    AttemptRow,
    BreakerRow,
    DeadLetter,
    JobFilter,
    JobRow,
    JobTypeRow,
    StateCount,
)
from warrener_store.rules import broken_attempt_rule, broken_job_rule
from warrener_store.running import RunningAttemptRow
from warrener_store.save_batches import JobSaves, group_saves
from warrener_store.schedules.memory import MemorySchedules
from warrener_store.schedules.memory_watches import MemoryWatches
from warrener_store.successes import SucceededJob, Success
from warrener_store.watchers import merge_watchers


class MemoryStore(
    MemoryWatches, MemorySchedules, MemoryJobExtras, MemoryParked, MemoryQueued, MemoryRetention, StateStore
):
    """Keeps everything in dictionaries until it is thrown away; start and close change nothing."""

    def __init__(self) -> None:
        self._jobs: dict[UUID, JobRow] = {}
        MemorySchedules.__init__(self)
        MemoryJobExtras.__init__(self, self._jobs)
        MemoryParked.__init__(self)
        self._installation: UUID | None = None
        MemoryQueued.__init__(self, self._live_jobs)
        self._by_key: dict[str, UUID] = {}
        self._live: set[UUID] = set()  # jobs that are not over
        self._deadlines: dict[UUID, datetime] = {}  # of jobs that are not over; moved by claims
        self._attempts: dict[tuple[UUID, int], AttemptRow] = {}
        self._dead_letters: dict[UUID, DeadLetter] = {}
        self._job_types: dict[str, JobTypeRow] = {}
        self._agents: dict[str, AgentRow] = {}
        self._breakers: dict[str, BreakerRow] = {}
        self._escalations = MemoryEscalations()
        self._dead_letter_store = MemoryDeadLetters(self._dead_letters, self._jobs)

    @property
    def escalations(self) -> MemoryEscalations:
        return self._escalations

    @property
    def dead_letter_store(self) -> MemoryDeadLetters:
        return self._dead_letter_store

    @property
    def retention(self) -> MemoryRetention:
        return self

    async def start(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """What is stored stays: others may share it."""

    async def ping(self) -> None:
        """Always answers."""

    async def time(self) -> datetime:
        """The machine's clock; a simulation has its own."""
        return datetime.now(UTC)

    # -- jobs, by those who decide ------------------------------------------------------------------------

    async def insert_jobs(self, rows: Sequence[JobRow]) -> list[Inserted]:
        for row in rows:
            _allow(row)
        return [self._insert(row) for row in rows]

    def _insert(self, row: JobRow) -> Inserted:
        held = self._jobs.get(row.job_id)
        if held is None and row.idempotency_key is not None and row.idempotency_key in self._by_key:
            held = self._jobs[self._by_key[row.idempotency_key]]
        if held is not None:
            return Inserted(held, new=False)
        self._jobs[row.job_id] = row = _own(row)
        if not row.state.terminal:
            self._live.add(row.job_id)
        if row.idempotency_key is not None:
            self._by_key[row.idempotency_key] = row.job_id
        if row.deadline_at is not None and not row.state.terminal:
            self._deadlines[row.job_id] = row.deadline_at
        return Inserted(row, new=True)

    async def jobs_by_id(self, job_ids: Collection[UUID]) -> dict[UUID, JobRow]:
        return {job_id: self._jobs[job_id] for job_id in job_ids if job_id in self._jobs}

    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        applicable = [job_saves for job_saves in group_saves(saves) if self._applies(job_saves)]
        for job_saves in applicable:
            _allow(job_saves.row)
            for attempt in job_saves.attempts:
                _allow_attempt(attempt)
        for job_saves in applicable:
            self._apply(job_saves)
        return {job_saves.row.job_id for job_saves in applicable}

    def _applies(self, job_saves: JobSaves) -> bool:
        held = self._jobs.get(job_saves.row.job_id)
        return held is not None and held.version == job_saves.base_version and not held.state.terminal

    def _apply(self, job_saves: JobSaves) -> None:
        job_id = job_saves.row.job_id
        self._jobs[job_id] = _with_request_of(self._jobs[job_id], _own(job_saves.row))
        if job_saves.row.state.terminal:
            self._deadlines.pop(job_id, None)
            self._live.discard(job_id)
        for attempt in job_saves.attempts:
            self._attempts.setdefault((job_id, attempt.attempt), attempt)
        for dead_letter in job_saves.dead_letters:
            self._dead_letters.setdefault(job_id, dead_letter)

    async def succeed_jobs(self, successes: Sequence[Success], now: datetime) -> dict[UUID, SucceededJob]:
        by_job = {success.job_id: success for success in successes}
        ending = [success for success in by_job.values() if self._ends(success)]
        ended = {success.job_id: success_save(success, self._jobs[success.job_id], now) for success in ending}
        await self.save_jobs([*ended.values()])
        return {job_id: succeeded_job(save.row) for job_id, save in ended.items()}

    def _ends(self, success: Success) -> bool:
        held = self._jobs.get(success.job_id)
        return held is not None and held.attempt == success.attempt and held.state in IN_FLIGHT

    async def claim_due(
        self, states: Collection[JobState], now: datetime, until: datetime, limit: int
    ) -> list[JobRow]:
        due = sorted(
            (row.wake_at, row.job_id)
            for row in self._live_jobs()
            if row.state in states and row.wake_at is not None and row.wake_at <= now
        )
        return [self._change(job_id, wake_at=until) for _, job_id in due[:limit]]

    async def claim_deadlines(self, now: datetime, until: datetime, limit: int) -> list[JobRow]:
        due = sorted((at, job_id) for job_id, at in self._deadlines.items() if at <= now)[:limit]
        self._deadlines.update((job_id, until) for _, job_id in due)
        return [self._change(job_id) for _, job_id in due]

    async def running_owners(self) -> dict[str, datetime | None]:
        owners = {one.owner for one in self._running(self._live)}
        seen = {agent_id: agent.last_seen_at for agent_id, agent in self._agents.items()}
        return {owner: seen.get(owner) for owner in owners}

    async def running_of(self, owners: Collection[str]) -> list[RunningAttemptRow]:
        return [one for one in self._running(self._live) if one.owner in owners]

    async def running_among(self, job_ids: Collection[UUID]) -> dict[UUID, RunningAttemptRow]:
        return {one.job_id: one for one in self._running(job_ids)}

    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        lost = sorted(one.job_id for one in self._running(job_ids) if one.lease_until <= now)
        return [self._change(job_id, lease_until=until) for job_id in lost]

    def _running(self, job_ids: Iterable[UUID]) -> Iterator[RunningAttemptRow]:
        for job_id in job_ids:
            row = self._jobs.get(job_id)
            if row is not None and row.state is JobState.RUNNING:
                assert row.owner is not None  # a rule of the store, as is the lease
                assert row.lease_until is not None
                cancelled = row.cancel_reason is not None
                yield RunningAttemptRow(job_id, row.attempt, row.owner, row.lease_until, cancelled)

    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
        more: dict[UUID, list[str]] = {}
        for job_id, address in watchers:
            more.setdefault(job_id, []).append(address)
        live = {job_id for job_id in more if job_id in self._jobs and not self._jobs[job_id].state.terminal}
        for job_id in live:
            self._change(job_id, watchers=merge_watchers(self._jobs[job_id].watchers, more[job_id]))
        return live

    async def mark_unpublished(self, attempts: Sequence[tuple[UUID, int]], now: datetime) -> None:
        for job_id, attempt in attempts:
            row = self._jobs.get(job_id)
            if row is not None and row.attempt == attempt and row.state in DISPATCHED:
                self._change(job_id, dispatched_at=None, updated_at=now)

    def _live_jobs(self) -> list[JobRow]:
        return [self._jobs[job_id] for job_id in self._live]

    def _change(self, job_id: UUID, **changes: object) -> JobRow:
        row = self._jobs[job_id]
        self._jobs[job_id] = row = replace(row, version=row.version + 1, **changes)  # type: ignore[arg-type]
        return row

    # -- what agents announce -----------------------------------------------------------------------------

    async def put_job_types(self, job_types: Sequence[JobTypeRow]) -> None:
        everything = (*self._job_types.values(), *job_types)
        self._job_types = latest_by_key(everything, lambda row: row.name, lambda row: row.announced_at)

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        return {name: row for name, row in self._job_types.items() if names is None or name in names}

    async def put_agents(self, agents: Sequence[AgentRow]) -> None:
        everything = (*self._agents.values(), *agents)
        self._agents = latest_by_key(everything, lambda row: row.agent_id, lambda row: row.last_seen_at)

    async def agents(self, since: datetime | None = None) -> list[AgentRow]:
        rows = (row for row in self._agents.values() if since is None or row.last_seen_at >= since)
        return _latest(rows, lambda row: (row.last_seen_at, row.agent_id))

    # -- circuit breakers ---------------------------------------------------------------------------------

    async def breakers(self) -> list[BreakerRow]:
        return [row for _, row in sorted(self._breakers.items())]

    async def put_breaker(self, row: BreakerRow) -> bool:
        held = self._breakers.get(row.name)
        if row.version != (1 if held is None else held.version + 1):
            return False
        self._breakers[row.name] = row
        return True

    async def release_held_jobs(
        self, job_types: Collection[str], now: datetime, beyond: datetime, limit: int
    ) -> int:
        held = sorted(
            (row.due_at, row.job_id)
            for row in self._live_jobs()
            if row.job_type in job_types
            and row.state in (JobState.WAITING, JobState.RETRYING)
            and row.due_at is not None
            and row.wake_at is not None
            and row.due_at <= now
            and row.wake_at > beyond
        )[:limit]
        for _, job_id in held:
            self._change(job_id, wake_at=now)
        return len(held)

    # -- the installation ---------------------------------------------------------------------------------

    async def keep_installation(self, installation_id: UUID) -> None:
        self._installation = self._installation or installation_id

    async def installation(self) -> UUID | None:
        return self._installation

    # -- questions ----------------------------------------------------------------------------------------

    async def list_jobs(self, which: JobFilter) -> list[JobRow]:
        chosen = [row for row in self._jobs.values() if _matches(row, which)]
        if which.before is not None:
            last = self._jobs.get(which.before)
            place = position_of(which.before, None if last is None else last.accepted_at)
            chosen = [row for row in chosen if (row.accepted_at, row.job_id) < place]
        return _latest(chosen, lambda row: (row.accepted_at, row.job_id))[: which.limit]

    async def attempts_of(self, job_id: UUID) -> list[AttemptRow]:
        return [
            row for (of, _), row in sorted(self._attempts.items(), key=lambda item: item[0]) if of == job_id
        ]

    async def dead_letters(self, limit: int = 50) -> list[DeadLetter]:
        return _latest(self._dead_letters.values(), lambda row: (row.died_at, row.job_id))[:limit]

    async def count_jobs(self) -> list[StateCount]:
        counts = Counter((row.job_type, row.state) for row in self._jobs.values())
        return [
            StateCount(job_type=name, state=state, jobs=jobs)
            for (name, state), jobs in sorted(counts.items())
        ]


R = TypeVar("R")


def _latest(rows: Iterable[R], order: Callable[[R], Any]) -> list[R]:
    return sorted(rows, key=order, reverse=True)


def _matches(row: JobRow, which: JobFilter) -> bool:
    return (
        (not which.states or row.state in which.states)
        and which.job_type in (None, row.job_type)
        and which.parent_id in (None, row.parent_id)
    )


def _own(row: JobRow) -> JobRow:
    """A copy that nobody else can change, in the form in which a database gives it back."""
    return replace(row, arguments=decode(encode(row.arguments)), result=decode(encode(row.result)))


def _with_request_of(held: JobRow, row: JobRow) -> JobRow:
    """`row` with what was asked for as it is stored: that never changes."""
    return replace(row, **{name: getattr(held, name) for name in REQUEST_FIELDS})


def _allow(row: JobRow) -> None:
    broken = broken_job_rule(row)
    if broken is not None:
        raise StoreRefused(
            f"expected a job row that keeps the rule {broken}, got {row.job_id} in state {row.state}"
        )


def _allow_attempt(row: AttemptRow) -> None:
    broken = broken_attempt_rule(row)
    if broken is not None:
        raise StoreRefused(
            f"expected an attempt row that keeps the rule {broken}, got {row.attempt} of {row.job_id}"
        )

"""Jobs in dictionaries: the plainest statement of what the store promises about them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from tests.store_rows import succeeded

from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.encoding import decode, encode
from warrener_store.jobs.batches import JobSaves, group_saves
from warrener_store.jobs.list_query import position_of
from warrener_store.jobs.rows import REQUEST_FIELDS, AttemptRow, Inserted, JobFilter, JobRow, Save, StateCount
from warrener_store.jobs.rules import IN_FLIGHT, VERDICT, merge_watchers
from warrener_store.jobs.views import RunningAttemptRow, SucceededJob, Success


class JobModel:
    """As a store, with the jobs alone."""

    def __init__(self) -> None:
        self._jobs: dict[UUID, JobRow] = {}
        self._by_key: dict[str, UUID] = {}
        self._live: set[UUID] = set()  # jobs that are not over
        self._deadlines: dict[UUID, datetime] = {}  # of jobs that are not over; moved by claims
        self._attempts: dict[tuple[UUID, int], AttemptRow] = {}
        self._dead_letters: dict[UUID, DeadLetter] = {}

    async def insert_jobs(self, rows: Sequence[JobRow]) -> list[Inserted]:
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
            self._apply(job_saves)
        return {job_saves.row.job_id for job_saves in applicable}

    def _applies(self, job_saves: JobSaves) -> bool:
        held = self._jobs.get(job_saves.row.job_id)
        return held is not None and held.version == job_saves.base_version and not held.state.terminal

    def _apply(self, job_saves: JobSaves) -> None:
        job_id = job_saves.row.job_id
        held = self._jobs[job_id]
        request = {name: getattr(held, name) for name in REQUEST_FIELDS}  # it never changes
        self._jobs[job_id] = replace(_own(job_saves.row), **request)
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
        ended = {
            success.job_id: _success_save(success, self._jobs[success.job_id], now) for success in ending
        }
        before = {job_id: self._jobs[job_id] for job_id in ended}
        await self.save_jobs([*ended.values()])
        return {job_id: _succeeded_job(save.row, before[job_id]) for job_id, save in ended.items()}

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

    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
        more: dict[UUID, list[str]] = {}
        for job_id, address in watchers:
            more.setdefault(job_id, []).append(address)
        live = {job_id for job_id in more if job_id in self._jobs and not self._jobs[job_id].state.terminal}
        for job_id in live:
            self._change(job_id, watchers=merge_watchers(self._jobs[job_id].watchers, more[job_id]))
        return live

    async def list_jobs(self, which: JobFilter) -> list[JobRow]:
        chosen = [row for row in self._jobs.values() if _matches(row, which)]
        if which.before is not None:
            last = self._jobs.get(which.before)
            place = position_of(which.before, None if last is None else last.accepted_at)
            chosen = [row for row in chosen if (row.accepted_at, row.job_id) < place]
        newest = sorted(chosen, key=lambda row: (row.accepted_at, row.job_id), reverse=True)
        return newest[: which.limit]

    async def attempts_of(self, job_ids: Collection[UUID]) -> list[AttemptRow]:
        return [self._attempts[key] for key in sorted(self._attempts) if key[0] in job_ids]

    async def count_jobs(self) -> list[StateCount]:
        counts = Counter((row.job_type, row.queue, row.state) for row in self._jobs.values())
        return [
            StateCount(job_type=name, queue=queue, state=state, jobs=jobs)
            for (name, queue, state), jobs in sorted(counts.items())
        ]

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """All of them, the last that died first."""
        return sorted(self._dead_letters.values(), key=lambda one: (one.died_at, one.job_id), reverse=True)

    def _live_jobs(self) -> list[JobRow]:
        return [self._jobs[job_id] for job_id in self._live]

    def _change(self, job_id: UUID, **changes: object) -> JobRow:
        row = self._jobs[job_id]
        self._jobs[job_id] = row = replace(row, version=row.version + 1, **changes)  # type: ignore[arg-type]
        return row

    async def running_owners(self) -> dict[str, datetime | None]:
        owners = {one.agent_id for one in self._running(self._live)}
        return dict.fromkeys(owners)  # the model has no agents

    async def running_attempts(
        self, *, owners: Collection[str] = (), job_ids: Collection[UUID] = ()
    ) -> dict[UUID, RunningAttemptRow]:
        theirs = (one for one in self._running(self._live if owners else ()) if one.agent_id in owners)
        return {one.job_id: one for one in (*theirs, *self._running(job_ids))}

    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        lost = sorted(one.job_id for one in self._running(job_ids) if one.lease_until <= now)
        return [self._change(job_id, lease_until=until) for job_id in lost]

    def _running(self, job_ids: Iterable[UUID]) -> Iterator[RunningAttemptRow]:
        for job_id in job_ids:
            row = self._jobs.get(job_id)
            if row is not None and row.state is JobState.RUNNING:
                assert row.agent_id is not None  # by a rule of the store, as is the lease
                assert row.lease_until is not None
                cancelled = row.cancel_reason is not None
                yield RunningAttemptRow(job_id, row.attempt, row.agent_id, row.lease_until, cancelled)


def _matches(row: JobRow, which: JobFilter) -> bool:
    return (
        (not which.states or row.state in which.states)
        and which.job_type in (None, row.job_type)
        and which.parent_id in (None, row.parent_id)
        and (which.accepted_from is None or row.accepted_at >= which.accepted_from)
        and (which.accepted_until is None or row.accepted_at <= which.accepted_until)
    )


def _own(row: JobRow) -> JobRow:
    """A copy that no caller can change, in the form in which a database gives it back."""
    return replace(row, arguments=decode(encode(row.arguments)), result=decode(encode(row.result)))


def _success_save(success: Success, row: JobRow, now: datetime) -> Save:
    """The save by which a success ends the job of this row."""
    save = succeeded(row, success.result)
    assert save.attempt is not None
    return Save(
        replace(
            save.row,
            agent_id=success.agent_id,
            due_at=None,
            lease_until=None,
            finished_at=now,
            updated_at=now,
        ),
        replace(
            save.attempt,
            agent_id=success.agent_id,
            started_at=success.started_at,
            finished_at=success.finished_at,
            verdict=VERDICT,
        ),
    )


def _succeeded_job(row: JobRow, before: JobRow) -> SucceededJob:
    """The notification fields of a job that has succeeded."""
    assert row.finished_at is not None
    waited = row.traceparent is not None and before.state is not JobState.RUNNING
    return SucceededJob(
        row.job_id,
        row.attempt,
        row.result,
        row.finished_at,
        row.job_type,
        row.policy,
        row.parent_id,
        row.traceparent,
        row.tracestate,
        row.requested_at,
        row.watchers,
        before.updated_at if waited else None,
        before.due_at if row.traceparent is not None else None,
    )

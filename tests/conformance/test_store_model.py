"""Every store does, step by step, what a model of jobs in dictionaries does."""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest
from tests.store_rows import after, attempt_of, died, succeeded, waiting_job

from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store import StateStore
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter
from warrener_store.encoding import decode, encode
from warrener_store.jobs.batches import JobSaves, group_saves
from warrener_store.jobs.list_query import position_of
from warrener_store.jobs.rows import (
    REQUEST_FIELDS,
    AttemptOutcome,
    AttemptRow,
    Inserted,
    JobFilter,
    JobRow,
    Save,
    StateCount,
)
from warrener_store.jobs.rules import IN_FLIGHT, VERDICT, merge_watchers
from warrener_store.jobs.views import RunningAttemptRow, SucceededJob, Success


class JobModel:
    """As a store, with the jobs alone."""

    def __init__(self) -> None:
        self._jobs: dict[UUID, JobRow] = {}
        self._by_key: dict[tuple[str, str, str | None], UUID] = {}
        self._live: set[UUID] = set()  # jobs that are not over
        self._deadlines: dict[UUID, datetime] = {}  # of jobs that are not over; moved by claims
        self._attempts: dict[tuple[UUID, int], AttemptRow] = {}
        self._dead_letters: dict[UUID, DeadLetter] = {}

    async def insert_jobs(self, rows: Sequence[JobRow]) -> list[Inserted]:
        return [self._insert(row) for row in rows]

    def _insert(self, row: JobRow) -> Inserted:
        held = self._jobs.get(row.job_id)
        key = row.source, row.job_type, row.idempotency_key
        if held is None and key in self._by_key:
            held = self._jobs[self._by_key[key]]
        if held is not None:
            return Inserted(held, new=False)
        self._jobs[row.job_id] = row = _own(row)
        if not row.state.terminal:
            self._live.add(row.job_id)
        if row.idempotency_key is not None:
            self._by_key[key] = row.job_id
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
            for row in map(self._jobs.__getitem__, self._live)
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
        return count_states(self._jobs.values())

    @property
    def dead_letters(self) -> list[DeadLetter]:
        return sorted(self._dead_letters.values(), key=lambda one: (one.died_at, one.job_id), reverse=True)

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


def count_states(rows: Iterable[JobRow]) -> list[StateCount]:
    counts = Counter((row.job_type, row.queue, row.state) for row in rows)
    return [
        StateCount(job_type=name, queue=queue, state=state, jobs=jobs)
        for (name, queue, state), jobs in sorted(counts.items())
    ]


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
    assert row.finished_at is not None
    waited = row.traceparent is not None and before.state is not JobState.RUNNING
    return SucceededJob(
        **{name: getattr(row, name) for name in SucceededJob._fields if hasattr(row, name)},
        waited_since=before.updated_at if waited else None,
        was_due_at=before.due_at if row.traceparent is not None else None,
    )


STEPS = 150
LIVE = sorted(set(JobState) - TERMINAL)


class Story:
    """Random operations, each done to both stores; the answers must be equal."""

    def __init__(self, seed: int, real: StateStore) -> None:
        self.chance = random.Random(seed)
        self.real, self.model = real, JobModel()
        self.ids = [UUID(int=self.chance.getrandbits(128)) for _ in range(25)]
        self.parents = [None, UUID(int=1), UUID(int=2)]
        self.now = 0.0
        self.read = 0  # rows of pages

    async def step(self) -> None:
        self.now += self.chance.random() * 10
        claims = self.claim, self.claim_deadlines, self.lose
        await self.chance.choice(
            (self.insert, self.save, self.succeed, *claims, self.watch, self.read_page)
        )()
        assert await self.real.count_jobs() == await self.model.count_jobs()

    async def insert(self) -> None:
        rows = [
            waiting_job(
                job_id=job_id,
                job_type=self.chance.choice(["a", "b"]),
                queue=self.chance.choice(["default", "other"]),
                parent_id=self.chance.choice(self.parents),
                idempotency_key=self.chance.choice([None, "k1", "k2", "k3"]),
                accepted_at=after(self.chance.randint(0, 9)),
                wake_at=self.soon(),
                deadline_at=self.chance.choice([None, self.soon()]),
            )
            for job_id in self.repeated_ids()
        ]
        assert await self.real.insert_jobs(rows) == await self.model.insert_jobs(rows)

    async def save(self) -> None:
        ids = self.some_ids()
        rows = await self.model.jobs_by_id(ids)
        saves = [self.some_save(rows.get(job_id) or waiting_job(job_id=job_id)) for job_id in ids]
        assert await self.real.save_jobs(saves) == await self.model.save_jobs(saves)

    def some_save(self, row: JobRow) -> Save:
        if self.chance.random() < 0.1:
            row = replace(row, version=row.version + self.chance.choice([-1, 1]) if row.version > 1 else 2)
        if row.state is not JobState.WAITING and self.chance.random() < 0.3:
            over = self.chance.choice([JobState.CANCELLED, JobState.EXPIRED])
            ended = replace(row, version=row.version + 1, state=over, wake_at=None, finished_at=after(60))
            return self.chance.choice([succeeded(row, self.chance.random()), died(row), Save(ended)])
        state = self.chance.choice(LIVE[:1] if row.state.terminal else LIVE)
        later = row.attempt + self.chance.choice([0, 0, 1])
        attempt = 0 if state is JobState.WAITING else max(1, later)
        moved = replace(
            row,
            version=row.version + 1,
            state=state,
            attempt=attempt,
            arguments={"path": "changed"},  # the request of a job never changes
            idempotency_key=self.chance.choice([None, "k1"]),
            queue="changed",
            agent_id=self.chance.choice(["a1", "a2"]),
            cancel_reason=self.chance.choice([None, "requested"]),
            lease_until=self.soon(),
            wake_at=self.soon(),
            finished_at=None,
            result=None,
        )
        return Save(moved, attempt_of(row, AttemptOutcome.LOST) if row.attempt else None)

    async def succeed(self) -> None:
        alike = self.chance.random() < 0.5
        batch = [
            Success(
                job_id=job_id,
                attempt=1 if alike else self.chance.randint(1, 3),
                agent_id="a1" if alike else self.chance.choice(["a1", "a2"]),
                result=None if alike else self.chance.choice([None, 1, "x"]),
                started_at=after(self.now),
                finished_at=after(self.now) if alike else self.soon(),
            )
            for job_id in self.some_ids()
        ]
        now = after(self.now)
        assert await self.real.succeed_jobs(batch, now) == await self.model.succeed_jobs(batch, now)

    async def claim(self) -> None:
        states, limit = self.chance.sample(LIVE, 2), self.chance.randint(1, 5)
        now, until = after(self.now), after(self.now + 5)
        claimed = await self.model.claim_due(states, now, until, limit)
        assert await self.real.claim_due(states, now, until, limit) == claimed

    async def claim_deadlines(self) -> None:
        now, until, limit = after(self.now), after(self.now + 5), self.chance.randint(1, 5)
        claimed = await self.model.claim_deadlines(now, until, limit)
        assert await self.real.claim_deadlines(now, until, limit) == claimed

    async def lose(self) -> None:
        ids, now, until = self.some_ids(), after(self.now), after(self.now + 5)
        owners = self.chance.sample(["a1", "a2", "nobody"], self.chance.randint(0, 2))
        running = await self.model.running_attempts(owners=owners, job_ids=ids)
        assert await self.real.running_attempts(owners=owners, job_ids=ids) == running
        assert await self.real.running_owners() == await self.model.running_owners()
        assert await self.real.claim_lost(ids, now, until) == await self.model.claim_lost(ids, now, until)

    async def watch(self) -> None:
        batch = [(job_id, f"w{self.chance.randint(1, 12)}") for job_id in self.repeated_ids()]
        assert await self.real.add_watchers(batch) == await self.model.add_watchers(batch)

    async def read_page(self) -> None:
        which = JobFilter(
            states=tuple(self.chance.sample(sorted(JobState), self.chance.randint(0, 3))),
            job_type=self.chance.choice([None, None, "a"]),
            parent_id=self.chance.choice([None, *self.parents]),
            accepted_from=self.chance.choice([None, None, after(self.chance.randint(0, 9))]),
            accepted_until=self.chance.choice([None, None, after(self.chance.randint(0, 9))]),
            before=self.chance.choice([None, None, *await self.model.jobs_by_id(self.some_ids())]),
            limit=self.chance.randint(1, 10),
        )
        page = await self.model.list_jobs(which)
        assert await self.real.list_jobs(which) == page
        self.read += len(page)

    def some_ids(self) -> list[UUID]:
        """Each once, as saves and successes of one batch must be."""
        return self.chance.sample(self.ids, self.chance.randint(1, 8))

    def repeated_ids(self) -> list[UUID]:
        return self.chance.choices(self.ids, k=self.chance.randint(1, 8))

    def soon(self) -> datetime:
        return after(self.now + self.chance.random() * 20)


@pytest.mark.parametrize("seed", range(4))
async def test_any_operations_give_the_same_answers_and_counts(store: StateStore, seed: int) -> None:
    story = Story(seed, store)
    for _ in range(STEPS):
        await story.step()
    assert story.read, "some pages had jobs"
    everything = await store.list_jobs(JobFilter(limit=1000))
    assert everything == await story.model.list_jobs(JobFilter(limit=1000))
    assert await store.count_jobs() == count_states(everything)
    every = DeadLetterFilter(states=(), limit=1000)
    assert await store.dead_letter_store.list_dead_letters(every) == story.model.dead_letters
    some = story.some_ids()
    for ids in ([row.job_id for row in everything], some, []):
        assert await store.attempts_of(ids) == await story.model.attempts_of(ids)

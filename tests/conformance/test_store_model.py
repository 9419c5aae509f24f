"""Every state store does, step by step, what the model does."""

import random
from collections import Counter
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest
from tests.conformance.job_model import JobModel
from tests.store_rows import after, attempt_of, died, succeeded, waiting_job

from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store import StateStore
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.jobs.rows import AttemptOutcome, JobFilter, JobRow, Save, StateCount
from warrener_store.jobs.views import Success

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
        verbs = (
            self.insert,
            self.save,
            self.succeed,
            self.claim,
            self.claim_deadlines,
            self.lose,
            self.watch,
            self.read_page,
        )
        await self.chance.choice(verbs)()
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
    assert await store.count_jobs() == recount(everything)
    every = DeadLetterFilter(states=(), limit=1000)
    assert await store.dead_letter_store.list_dead_letters(every) == story.model.dead_letters
    some = story.some_ids()
    for ids in ([row.job_id for row in everything], some, []):
        assert await store.attempts_of(ids) == await story.model.attempts_of(ids)


def recount(rows: list[JobRow]) -> list[StateCount]:
    counts = Counter((row.job_type, row.queue, row.state) for row in rows)
    return [
        StateCount(job_type=name, queue=queue, state=state, jobs=jobs)
        for (name, queue, state), jobs in sorted(counts.items())
    ]

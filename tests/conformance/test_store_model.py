"""Every state store does, step by step, what the one in memory does."""

import random
from collections import Counter
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest

from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store import StateStore
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.jobs.rows import AttemptOutcome, JobFilter, JobRow, Save, StateCount
from warrener_store.jobs.views import Success
from warrener_store.memory import MemoryStore
from warrener_store.testing import after, attempt_of, died, succeeded, waiting_job

STEPS = 120
LIVE = sorted(set(JobState) - TERMINAL)


class Story:
    """Random operations, each done to both stores; the answers must be equal."""

    def __init__(self, seed: int, real: StateStore) -> None:
        self.chance = random.Random(seed)
        self.real, self.model = real, MemoryStore()
        self.ids = [UUID(int=self.chance.getrandbits(128)) for _ in range(25)]
        self.now = 0.0

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
        )
        await self.chance.choice(verbs)()
        assert await self.real.count_jobs() == await self.model.count_jobs()

    async def insert(self) -> None:
        rows = [
            waiting_job(
                job_id=job_id,
                job_type=self.chance.choice(["a", "b"]),
                idempotency_key=self.chance.choice([None, "k1", "k2", "k3"]),
                accepted_at=after(self.chance.randint(0, 9)),
                wake_at=self.soon(),
                deadline_at=self.chance.choice([None, self.soon()]),
            )
            for job_id in self.some_ids()
        ]
        assert await self.real.insert_jobs(rows) == await self.model.insert_jobs(rows)

    async def save(self) -> None:
        rows = await self.model.jobs_by_id(self.some_ids())
        saves = [self.some_save(row) for row in rows.values()]
        assert await self.real.save_jobs(saves) == await self.model.save_jobs(saves)

    def some_save(self, row: JobRow) -> Save:
        if self.chance.random() < 0.1:
            row = replace(row, version=row.version + self.chance.choice([-1, 1]) if row.version > 1 else 2)
        if row.state is not JobState.WAITING and self.chance.random() < 0.3:
            return self.chance.choice([succeeded(row, self.chance.random()), died(row)])
        state = self.chance.choice(LIVE[:1] if row.state.terminal else LIVE)
        attempt = 0 if state is JobState.WAITING else max(1, row.attempt)
        moved = replace(
            row,
            version=row.version + 1,
            state=state,
            attempt=attempt,
            agent_id="a1",
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
                attempt=1 if alike else self.chance.randint(1, 2),
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
        running = await self.model.running_attempts(job_ids=ids)
        assert await self.real.running_attempts(job_ids=ids) == running
        assert await self.real.running_owners() == await self.model.running_owners()
        assert await self.real.claim_lost(ids, now, until) == await self.model.claim_lost(ids, now, until)

    async def watch(self) -> None:
        batch = [(job_id, f"w{self.chance.randint(1, 12)}") for job_id in self.some_ids()]
        assert await self.real.add_watchers(batch) == await self.model.add_watchers(batch)

    def some_ids(self) -> list[UUID]:
        """May hold an id twice only where the port allows it: not here."""
        return self.chance.sample(self.ids, self.chance.randint(1, 8))

    def soon(self) -> datetime:
        return after(self.now + self.chance.random() * 20)


@pytest.mark.parametrize("seed", range(4))
async def test_any_operations_give_the_same_answers_and_counts(store: StateStore, seed: int) -> None:
    story = Story(seed, store)
    for _ in range(STEPS):
        await story.step()
    everything = await store.list_jobs(JobFilter(limit=1000))
    assert everything == await story.model.list_jobs(JobFilter(limit=1000))
    assert await store.count_jobs() == recount(everything)
    assert await store.dead_letter_store.list_dead_letters(
        DeadLetterFilter(states=(), limit=1000)
    ) == await story.model.dead_letter_store.list_dead_letters(DeadLetterFilter(states=(), limit=1000))
    for row in everything:
        assert await store.attempts_of([row.job_id]) == await story.model.attempts_of([row.job_id])


def recount(rows: list[JobRow]) -> list[StateCount]:
    counts = Counter((row.job_type, row.queue, row.state) for row in rows)
    return [
        StateCount(job_type=name, queue=queue, state=state, jobs=jobs)
        for (name, queue, state), jobs in sorted(counts.items())
    ]

"""Dispatch queues that refuse: closed for a while, named by readiness, open once they take a job."""

from datetime import datetime, timedelta

import pytest
from tests.store_rows import queued_job

from warrener_runtime.health import HealthRegistry, NotReady, current_health_registry
from warrener_runtime.virtual_clock import VirtualClock
from warrener_scheduler.dispatch_gates import CongestedQueues
from warrener_store.jobs.rows import JobRow
from warrener_store.memory import MemoryStore


class Scene:
    def __init__(self) -> None:
        self.clock, self.vitals = VirtualClock(), HealthRegistry()
        self.congestion = CongestedQueues(MemoryStore(), self.clock)
        current_health_registry.set(self.vitals)

    def row(self, queue: str = "full") -> JobRow:
        return queued_job(queue=queue, dispatched_at=self.now)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def refuse(self, *others: JobRow) -> None:
        row = self.row()
        await self.congestion.record_refusals([(row.job_id, row.attempt)], [row, *others])

    async def refuse_for_some_time(self, *others: JobRow) -> None:
        """At each try, as soon as the queue is tried again."""
        await self.refuse(*others)
        for pause in (5, 10):
            await self.clock.advance(pause)
            await self.refuse(*others)

    async def check(self) -> str | None:
        try:
            await self.vitals.checks["dispatch queues"]()
        except NotReady as why:
            return str(why)
        return None


async def test_2_a_queue_that_refuses_for_some_time_is_named_until_it_takes_a_job() -> None:
    scene = Scene()
    await scene.refuse(scene.row("other"))
    assert await scene.check() is None, "a moment without room is no trouble"
    for pause in (5, 10):
        await scene.clock.advance(pause)
        await scene.refuse()
    assert await scene.check() == "dispatch queues take no messages, full or without a quorum: full"
    assert not scene.congestion.is_closed("other", scene.now)
    await scene.clock.advance(20)
    assert not scene.congestion.is_closed("full", scene.now), "it is tried again"
    await scene.congestion.record_refusals([], [scene.row("other")])
    assert await scene.check() is not None
    await scene.congestion.record_refusals([], [scene.row()])
    assert await scene.check() is None


async def test_2_a_queue_for_which_no_job_comes_is_not_named_without_end() -> None:
    scene = Scene()
    await scene.refuse_for_some_time()
    assert await scene.check() is not None
    await scene.clock.advance(timedelta(minutes=2).total_seconds())
    assert await scene.check() is None


async def test_2_jobs_that_were_dispatched_before_the_refusal_do_not_count() -> None:
    scene = Scene()
    before = scene.row()
    await scene.refuse_for_some_time(before)
    await scene.clock.advance(20)
    await scene.congestion.record_refusals([], [before])
    assert await scene.check() is not None


@pytest.fixture(autouse=True)
def _vitals_of_the_test() -> object:
    """Each test has its own."""
    token = current_health_registry.set(None)
    yield
    current_health_registry.reset(token)

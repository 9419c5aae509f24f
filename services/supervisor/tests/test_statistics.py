"""Ended jobs are counted once each, by one supervisor at a time, whatever fails in between."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from services.supervisor.tests.event_factory import NOW, agent_row
from tests.store_rows import died, queued_job

from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.agents.rows import AgentRow
from warrener_store.errors import StoreUnavailable
from warrener_store.jobs.views import Success
from warrener_store.memory import MemoryStore
from warrener_store.statistics.rows import (
    BucketSpan,
    CauseBucket,
    EndedJob,
    RollupPosition,
    SeriesBucket,
    SeriesKind,
    SeriesQuery,
)
from warrener_supervisor import statistics
from warrener_supervisor.statistics import INTERVAL, SETTLED_AFTER, StatisticsKeeper

LONG_AGO = NOW - timedelta(days=300)


class FailingStore(MemoryStore):
    """A store that may lose its database just before or just after a step is stored."""

    fails_before = fails_after = False

    def __init__(self) -> None:
        super().__init__()
        self.drops = Counter[BucketSpan]()

    async def drop_statistics(self, span: BucketSpan, before: datetime) -> None:
        self.drops[span] += 1
        await super().drop_statistics(span, before)

    async def add_statistics(
        self, position: RollupPosition, buckets: Sequence[SeriesBucket], causes: Sequence[CauseBucket]
    ) -> bool:
        if self.fails_before:
            raise StoreUnavailable("away")
        done = await super().add_statistics(position, buckets, causes)
        if self.fails_after:
            raise StoreUnavailable("away")
        return done


class Scene:
    def __init__(self) -> None:
        self.clock, self.store = VirtualClock(NOW), FailingStore()
        self.keeper = self.supervisor("one")

    def supervisor(self, holder: str) -> StatisticsKeeper:
        return StatisticsKeeper(self.store, self.clock, holder=holder)

    async def end(self, jobs: int, at: datetime, agent_id: str = "a1") -> None:
        """End jobs by successes at one moment."""
        rows = [queued_job() for _ in range(jobs)]
        await self.store.insert_jobs(rows)
        successes = [Success(row.job_id, 1, agent_id, None, at - timedelta(seconds=1), at) for row in rows]
        await self.store.succeed_jobs(successes, at)

    async def settle(self) -> None:
        """Let what has ended settle, then count it."""
        await self.clock.advance(SETTLED_AFTER.total_seconds())
        await self.keeper.run_once()

    async def counted(self, kind: SeriesKind = SeriesKind.ALL, name: str = "") -> list[SeriesBucket]:
        which = SeriesQuery(span=BucketSpan.DAY, kind=kind, names=[name], since=LONG_AGO)
        return await self.store.statistics.series(which)

    async def jobs(self) -> int:
        return sum(bucket.jobs for bucket in await self.counted())


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_jobs_are_counted_when_they_have_settled(scene: Scene) -> None:
    await scene.end(3, NOW)
    await scene.keeper.run_once()
    assert await scene.jobs() == 0
    await scene.settle()
    assert await scene.jobs() == 3
    await scene.keeper.run_once()
    assert await scene.jobs() == 3


async def test_a_job_that_is_saved_late_is_counted(scene: Scene) -> None:
    await scene.end(1, NOW + timedelta(seconds=10))
    await scene.clock.advance(20)
    await scene.keeper.run_once()
    await scene.end(1, NOW)  # its save took twenty seconds
    await scene.clock.advance(15)
    await scene.keeper.run_once()
    await scene.settle()
    assert await scene.jobs() == 2


async def test_many_jobs_of_one_moment_are_counted_in_several_steps(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "STEP_LIMIT", 7)
    await scene.end(30, NOW)
    await scene.end(5, NOW + timedelta(seconds=1))
    await scene.settle()
    await scene.settle()
    assert await scene.jobs() == 35
    [one] = await scene.counted()
    assert sum(one.durations.values()) == 35


async def test_the_first_start_on_an_old_table_goes_in_bounded_steps(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "STEP_LIMIT", 5)
    monkeypatch.setattr(statistics, "MAX_STEPS", 2)
    for day in range(12):
        await scene.end(4, NOW - timedelta(days=100 - day))
    await scene.keeper.run_once()
    assert await scene.jobs() == 10
    for _ in range(5):
        await scene.clock.advance(INTERVAL.total_seconds())
        await scene.keeper.run_once()
    assert await scene.jobs() == 48
    assert len(await scene.counted()) == 12


@pytest.mark.parametrize("way", ["fails_before", "fails_after"])
async def test_a_step_that_fails_is_made_once(scene: Scene, way: str) -> None:
    await scene.end(2, NOW)
    setattr(scene.store, way, True)
    with pytest.raises(StoreUnavailable):
        await scene.settle()
    setattr(scene.store, way, False)
    await scene.keeper.run_once()
    assert await scene.jobs() == 2


async def test_of_two_supervisors_one_counts_and_another_takes_over(scene: Scene) -> None:
    other = scene.supervisor("other")
    await scene.end(1, NOW)
    await scene.settle()
    await scene.end(1, scene.clock.now())
    await scene.clock.advance(SETTLED_AFTER.total_seconds())
    await scene.keeper.run_once()
    await other.run_once()
    assert await scene.jobs() == 2
    await scene.keeper.release()
    await scene.end(1, scene.clock.now())
    await scene.clock.advance(SETTLED_AFTER.total_seconds())
    await other.run_once()
    await scene.keeper.run_once()  # it was only frozen
    assert await scene.jobs() == 3


async def test_a_supervisor_with_old_knowledge_changes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.end(1, NOW)
    await scene.settle()
    await scene.end(1, scene.clock.now())
    await scene.clock.advance(SETTLED_AFTER.total_seconds())
    other = scene.supervisor("other")

    async def overtaken(after: RollupPosition, until: datetime, limit: int) -> list[EndedJob]:
        monkeypatch.undo()
        await scene.keeper.release()
        await other.run_once()
        return await scene.store.ended_jobs(after, until, limit)

    monkeypatch.setattr(scene.store, "ended_jobs", overtaken)
    await scene.keeper.run_once()
    assert await scene.jobs() == 2


async def test_dead_jobs_are_counted_by_cause(scene: Scene) -> None:
    for fingerprint in ("f1", "f1", "f2"):
        row = queued_job()
        await scene.store.insert_jobs([row])
        save = died(row)
        assert save.dead_letter is not None
        dead = replace(save.row, finished_at=scene.clock.now())
        dead_letter = replace(save.dead_letter, fingerprint=fingerprint)
        await scene.store.save_jobs([replace(save, row=dead, dead_letter=dead_letter)])
        await scene.settle()
    causes = await scene.store.statistics.causes(BucketSpan.DAY, ["flights.load"], LONG_AGO)
    assert {cause.fingerprint: cause.jobs for cause in causes} == {"f1": 2, "f2": 1}


def agent(version: str, now: datetime) -> AgentRow:
    types = ("flights.load",)
    return agent_row("a1", started_at=now, last_seen_at=now, job_types=types, code_version=version)


async def test_jobs_count_by_the_version_that_ran_them(scene: Scene) -> None:
    await scene.store.put_agents([agent("1.4.1", NOW)])
    await scene.keeper.run_once()
    await scene.end(2, NOW + timedelta(seconds=10))
    await scene.clock.advance(30)
    now = scene.clock.now()
    await scene.store.put_agents([agent("1.4.2", now)])
    await scene.keeper.run_once()
    await scene.end(3, now + timedelta(seconds=1))
    await scene.settle()
    await scene.settle()
    found = await scene.counted(SeriesKind.JOB_TYPE, "flights.load")
    assert {bucket.code_version: bucket.jobs for bucket in found} == {"1.4.1": 2, "1.4.2": 3}
    deploys = await scene.store.statistics.deploys(LONG_AGO)
    assert [(one.code_version, one.first_seen_at) for one in deploys] == [("1.4.2", now), ("1.4.1", NOW)]


async def test_old_buckets_are_dropped_the_more_seldom_the_longer_they_stay(scene: Scene) -> None:
    await scene.end(1, NOW)
    hours = 4 * 24
    for _ in range(hours):
        await scene.clock.advance(3600)
        await scene.keeper.run_once()
    assert scene.store.drops == {
        BucketSpan.MINUTE: hours,
        BucketSpan.TEN_MINUTES: hours / 3,
        BucketSpan.HOUR: 3,  # each 35 hours
        BucketSpan.DAY: 1,
    }
    stored = {
        span
        for span in BucketSpan
        if await scene.store.series(SeriesQuery(span=span, kind=SeriesKind.ALL, names=[""], since=LONG_AGO))
    }
    assert stored == {BucketSpan.HOUR, BucketSpan.DAY}

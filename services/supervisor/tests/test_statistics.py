"""Ended jobs are counted once each, by one supervisor at a time; deploys are noticed, restarts are none."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from services.supervisor.tests.stage import NOW, agent_row
from tests.store_rows import died, queued_job

from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.agents.rows import AgentRow
from warrener_store.errors import StoreUnavailable
from warrener_store.jobs.views import Success
from warrener_store.memory import MemoryStore
from warrener_store.statistics.rows import (
    AgentVersion,
    BucketSpan,
    CauseBucket,
    Deploy,
    EndedJob,
    RollupPosition,
    SeriesBucket,
    SeriesKind,
    SeriesQuery,
)
from warrener_supervisor import statistics
from warrener_supervisor.decisions.deploys import VersionHistory, hash_schema, observe_deploys
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


async def test_jobs_are_counted_once_when_they_have_settled_and_so_are_those_that_were_saved_late(
    scene: Scene,
) -> None:
    await scene.end(3, NOW)
    await scene.end(1, NOW + timedelta(seconds=10))
    await scene.clock.advance(20)
    await scene.keeper.run_once()
    assert await scene.jobs() == 0
    await scene.end(1, NOW)  # its save took twenty seconds
    await scene.clock.advance(15)
    await scene.keeper.run_once()
    await scene.settle()
    await scene.keeper.run_once()
    assert await scene.jobs() == 5


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


def versioned_agent(version: str, now: datetime) -> AgentRow:
    types = ("flights.load",)
    return agent_row("a1", started_at=now, last_seen_at=now, job_types=types, code_version=version)


async def test_jobs_count_by_the_version_that_ran_them(scene: Scene) -> None:
    await scene.store.put_agents([versioned_agent("1.4.1", NOW)])
    await scene.keeper.run_once()
    await scene.end(2, NOW + timedelta(seconds=10))
    await scene.clock.advance(30)
    now = scene.clock.now()
    await scene.store.put_agents([versioned_agent("1.4.2", now)])
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


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def agent(agent_id: str, version: str | None, started: float, seen: float, *types: str) -> AgentRow:
    times = {"started_at": at(started), "last_seen_at": at(seen)}
    return agent_row(agent_id, job_types=types or ("flights.load",), code_version=version, **times)


def observed(agents: list[AgentRow], known: list[Deploy], now: float) -> list[Deploy]:
    return observe_deploys(agents, known, {"flights.load": SCHEMA}, at(now))


OLD = Deploy(
    job_type="flights.load", first_seen_at=at(-600), code_version="1.4.1", last_seen_at=at(0), schema_hash="x"
)


def test_the_first_agent_of_a_version_is_a_deploy_of_its_job_types() -> None:
    found = observed([agent("a", "1.4.1", -5, 0, "flights.load", "mail.send")], [], 0)
    assert [(one.job_type, one.first_seen_at, one.code_version) for one in found] == [
        ("flights.load", at(-5), "1.4.1"),
        ("mail.send", at(-5), "1.4.1"),
    ]
    assert [one.schema_hash for one in found] == [hash_schema(SCHEMA), ""]


NEW = replace(OLD, first_seen_at=at(1), code_version="1.4.2", last_seen_at=at(3))


@pytest.mark.parametrize(
    ("agents", "known", "now", "deploys"),
    [
        # several agents of a version are one deploy
        ([agent("a", "1.4.2", 2, 3), agent("b", "1.4.2", 1, 3)], [OLD], 3, [("1.4.2", 1, 3)]),
        # an old agent that is started again beside the new ones is none, a rollback is one
        ([agent("a", "1.4.1", 3.5, 3.6)], [replace(OLD, last_seen_at=at(3)), NEW], 3.6, []),
        ([agent("a", "1.4.1", 10, 10)], [OLD, replace(NEW, last_seen_at=at(9))], 10, [("1.4.1", 10, 10)]),
        # after a night the last version is still the deploy that it was
        ([agent("a", "1.4.1", 600, 601)], [OLD], 601, [("1.4.1", -600, 601)]),
        # that a version is still seen is stored once a minute
        ([agent("a", "1.4.1", -600, 0.5)], [OLD], 0.5, []),
        ([agent("a", "1.4.1", -600, 1)], [OLD], 1, [("1.4.1", -600, 1)]),
        # agents without a version make no marks, and one from the future started now
        ([agent("a", None, 0, 1)], [OLD], 1, []),
        ([agent("a", "2", 30, 1)], [], 1, [("2", 1, 1)]),
    ],
)
def test_another_version_than_the_last_is_a_deploy(
    agents: list[AgentRow], known: list[Deploy], now: float, deploys: list[tuple[str, float, float]]
) -> None:
    found = [(one.code_version, one.first_seen_at, one.last_seen_at) for one in observed(agents, known, now)]
    assert found == [(version, at(first), at(last)) for version, first, last in deploys]


def test_the_hash_of_a_schema_knows_no_order() -> None:
    assert hash_schema({"a": 1, "b": [2]}) == hash_schema({"b": [2], "a": 1}) != hash_schema({"a": 1})


def test_an_agent_that_restarts_with_another_version_ran_both() -> None:
    history = VersionHistory()
    history.add(["a"], [AgentVersion(agent_id="a", since=at(-60), code_version="1.4.1")])
    assert history.observe([agent("a", "1.4.1", -60, 0)], at(0)) == []
    [new] = history.observe([agent("a", "1.4.2", 5, 6)], at(6))
    assert new == AgentVersion(agent_id="a", since=at(5), code_version="1.4.2")
    versions = [history.version_of("a", at(minutes)) for minutes in (-90, -60, 4, 5, 60)]
    assert versions == ["", "1.4.1", "1.4.1", "1.4.2", "1.4.2"]
    assert history.version_of("b", at(0)) == history.version_of(None, at(0)) == ""


def test_an_agent_that_ceases_to_announce_a_version_runs_an_unknown_one() -> None:
    history = VersionHistory()
    history.add(["a"], [])
    assert history.observe([agent("a", None, 0, 1)], at(1)) == []
    history.observe([agent("a", "1", 2, 3)], at(3))
    [gone] = history.observe([agent("a", None, 5, 6)], at(6))
    assert (gone.since, gone.code_version) == (at(5), "")

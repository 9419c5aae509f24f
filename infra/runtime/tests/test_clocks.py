"""The database's clock whatever the local one shows; and virtual time, in which a day passes in no time."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from warrener_runtime.database_clock import MAX_SAMPLE_AGE, DatabaseClock
from warrener_runtime.lifecycle import Loop, NotReady
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock

START = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Host(VirtualClock):
    """A host whose wall clock is wrong by `wrong` seconds, and can be set."""

    def __init__(self, wrong: float = 0.0) -> None:
        super().__init__(START)
        self.wrong = wrong

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.wrong)


class Database:
    """A database whose clock is the host's true time plus `ahead`; each way to it takes so many seconds."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.ahead = 0.0
        self.there = self.back = 0.01
        self.away = False
        self.reads = 0

    def true(self) -> datetime:
        return START + timedelta(seconds=self._host.monotonic() + self.ahead)

    async def time(self) -> datetime:
        self.reads += 1
        if self.away:
            raise ConnectionError("away")
        await self._host.sleep(self.there)
        database_time = self.true()
        await self._host.sleep(self.back)
        return database_time


def new_clock(wrong: float = 0.0) -> tuple[Host, Database, DatabaseClock]:
    host = Host(wrong)
    database = Database(host)
    return host, database, DatabaseClock(database.time, local=host)


async def sampled_clock(wrong: float = 0.0) -> tuple[Host, Database, DatabaseClock]:
    host, database, clock = new_clock(wrong)
    await sampled(host, clock.start())
    return host, database, clock


async def sampled(host: Host, work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    await host.run_until(task.done, within=60)
    await task


def apart(clock: DatabaseClock, database: Database) -> float:
    return (clock.now() - database.true()).total_seconds()


@pytest.mark.parametrize("wrong", [-60.0, 0.0, 60.0])
async def test_the_time_is_the_databases_whatever_the_local_clock_shows(wrong: float) -> None:
    host, database, clock = await sampled_clock(wrong)
    assert abs(apart(clock, database)) < 0.01
    host.wrong += 10.0  # somebody sets the local clock
    assert abs(apart(clock, database)) < 0.01
    await host.advance(5)
    assert abs(apart(clock, database)) < 0.01, "it goes on by the monotonic clock"
    assert clock.trusted
    reads = database.reads
    clock.now()
    assert database.reads == reads, "now() reads no database"


async def test_a_long_round_trip_does_not_spoil_a_good_sample() -> None:
    host, database, clock = await sampled_clock()
    database.there, database.back = 3.0, 0.0  # half the round trip is wrong by 1.5 s
    await sampled(host, clock.sample())
    assert abs(apart(clock, database)) < 0.05
    assert clock.trusted


async def test_small_corrections_do_not_go_back() -> None:
    host, database, clock = await sampled_clock()
    before = clock.now()
    database.ahead = -0.3
    await sampled(host, clock.sample())
    assert clock.now() >= before
    await host.advance(1)
    assert abs(apart(clock, database)) < 0.05


async def test_while_there_is_no_recent_sample_time_is_not_judged() -> None:
    host, _, clock = new_clock()
    assert not clock.trusted, "before the first one"
    await sampled(host, clock.start())
    await clock.check()
    await host.advance(MAX_SAMPLE_AGE + 1)  # frozen, or the database is away
    assert not clock.trusted
    with pytest.raises(NotReady, match="is 11 s old"):
        await clock.check()
    await sampled(host, clock.sample())
    assert clock.trusted


async def test_a_loop_that_judges_time_waits_for_a_clock_that_is_trusted() -> None:
    host, _, clock = new_clock()
    turns: list[datetime] = []

    async def turn() -> None:
        turns.append(clock.now())

    loop = Loop("judging", turn, every=1.0, clock=clock, judges_time=True)
    await loop.start()
    await host.advance(5)
    assert not turns
    await sampled(host, clock.start())
    await host.advance(3)
    assert len(turns) >= 3
    await loop.stop()


@pytest.mark.parametrize("step", [30.0, -30.0])
async def test_a_step_of_the_database_is_followed_and_confirmed_before_it_is_trusted(step: float) -> None:
    host, database, clock = await sampled_clock()
    database.ahead = step
    with capture_logs() as logs:
        await sampled(host, clock.sample())
    assert abs(apart(clock, database)) < 0.01
    assert not clock.trusted
    assert next(line["action"] for line in logs if line["log_level"] == "warning") == "clock.stepped"
    await sampled(host, clock.sample())
    assert clock.trusted


async def test_a_wrong_local_clock_is_logged_once_and_shown_in_readiness() -> None:
    with capture_logs() as logs:
        host, _, clock = await sampled_clock(7.0)
        await sampled(host, clock.sample())
    records = [line for line in logs if line["action"] == "clock.deviates"]
    assert [line["seconds"] for line in records] == [7.0]
    assert "7.0 s ahead" in (await clock.check() or "")
    with capture_logs() as logs:
        host.wrong = 0.0
        await sampled(host, clock.sample())
    assert [line["action"] for line in logs] == ["clock.agrees"]
    assert await clock.check() is None


async def test_a_database_that_is_away_leaves_the_estimate() -> None:
    host, database, clock = await sampled_clock()
    database.away = True
    with pytest.raises(ConnectionError):
        await clock.sample()
    await host.advance(5)
    assert abs(apart(clock, database)) < 0.01


async def test_sleepers_wake_by_their_time_and_then_as_they_came() -> None:
    clock, woken = VirtualClock(), list[tuple[str, float]]()

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    sleepers = (sleep(name, seconds) for name, seconds in [("c", 3), ("a", 1), ("b", 1), ("z", 0)])
    before, sleeping = clock.now(), asyncio.gather(*sleepers)
    await clock.advance(2.5)
    assert clock.sleeping == 1
    await clock.advance(2.5)
    assert woken == [("z", 0), ("a", 1), ("b", 1), ("c", 3)]
    assert (clock.now() - before, clock.monotonic()) == (timedelta(seconds=5), 5)
    await sleeping


async def test_who_sleeps_again_on_the_way_is_woken_again() -> None:
    clock, turns = VirtualClock(), list[float]()

    async def tick() -> None:
        while True:
            await clock.sleep(60)
            turns.append(clock.monotonic())

    task = asyncio.create_task(tick())
    await clock.advance(24 * 3600)
    assert len(turns) == 24 * 60
    task.cancel()
    await clock.settle()
    assert clock.sleeping == 0


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = VirtualClock()
    tasks = [asyncio.create_task(clock.sleep(seconds)) for seconds in (1, 2)]
    await clock.settle()
    tasks[0].cancel()
    await clock.run_until_idle(within=10)
    assert clock.monotonic() == 2
    assert tasks[1].done()


async def test_running_until_a_condition_stops_there_or_times_out() -> None:
    clock, facts = VirtualClock(), list[str]()

    async def later() -> None:
        await clock.sleep(30)
        facts.append("rain")

    task = asyncio.create_task(later())
    await clock.run_until(lambda: bool(facts), within=60)
    assert clock.monotonic() == 30
    with pytest.raises(TimeoutError, match="within 5 virtual seconds"):
        await clock.run_until(lambda: len(facts) > 1, within=5)
    await task


async def test_a_leap_wakes_due_sleepers_late_and_none_twice() -> None:
    clock, woken = VirtualClock(), list[tuple[str, float]]()

    async def sleep(name: str, seconds: float) -> None:
        while True:
            await clock.sleep(seconds)
            woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(sleep(name, seconds)) for name, seconds in (("long", 5), ("short", 1))]
    await clock.leap(3600)
    assert woken == [("short", 3600), ("long", 3600)]
    await clock.leap(3)
    assert woken[2:] == [("short", 3603)]
    for task in tasks:
        task.cancel()


def test_the_same_seed_gives_the_same_identifiers_and_they_rise() -> None:
    one, two, other = SeededEntropy(1), SeededEntropy(1), SeededEntropy(2)
    ids = [one.new_id() for _ in range(100)]
    assert ids == [two.new_id() for _ in range(100)]
    assert ids == sorted(ids)
    assert {found.version for found in ids} == {7}
    assert other.new_id() not in ids
    assert one.chance() == two.chance() != other.chance()

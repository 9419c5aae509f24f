"""The database's clock as services have it, whatever the local wall clock says."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from warrener_runtime.database_clock import MAX_SAMPLE_AGE, DatabaseClock
from warrener_runtime.lifecycle import Loop, NotReady
from warrener_runtime.virtual_clock import VirtualClock

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


async def clock_of(host: Host, database: Database) -> DatabaseClock:
    clock = DatabaseClock(database.time, local=host)
    await sampled(host, clock.start())
    return clock


async def sampled(host: Host, work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    await host.run_until(task.done, within=60)
    await task


def apart(clock: DatabaseClock, database: Database) -> float:
    return (clock.now() - database.true()).total_seconds()


@pytest.mark.parametrize("wrong", [-60.0, 0.0, 60.0])
async def test_the_time_is_the_databases_whatever_the_local_clock_shows(wrong: float) -> None:
    host = Host(wrong)
    database = Database(host)
    clock = await clock_of(host, database)
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
    host = Host()
    database = Database(host)
    clock = await clock_of(host, database)
    database.there, database.back = 3.0, 0.0  # half the round trip is wrong by 1.5 s
    await sampled(host, clock.sample())
    assert abs(apart(clock, database)) < 0.05
    assert clock.trusted


async def test_small_corrections_do_not_go_back() -> None:
    host = Host()
    database = Database(host)
    clock = await clock_of(host, database)
    before = clock.now()
    database.ahead = -0.3
    await sampled(host, clock.sample())
    assert clock.now() >= before
    await host.advance(1)
    assert abs(apart(clock, database)) < 0.05


async def test_while_there_is_no_recent_sample_time_is_not_judged() -> None:
    host = Host()
    database = Database(host)
    clock = DatabaseClock(database.time, local=host)
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
    host = Host()
    database = Database(host)
    clock = DatabaseClock(database.time, local=host)
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
    host = Host()
    database = Database(host)
    clock = await clock_of(host, database)
    database.ahead = step
    with capture_logs() as logs:
        await sampled(host, clock.sample())
    assert abs(apart(clock, database)) < 0.01
    assert not clock.trusted
    assert next(line["action"] for line in logs if line["log_level"] == "warning") == "clock.stepped"
    await sampled(host, clock.sample())
    assert clock.trusted


async def test_a_wrong_local_clock_is_logged_once_and_shown_in_readiness() -> None:
    host = Host(wrong=7.0)
    database = Database(host)
    with capture_logs() as logs:
        clock = await clock_of(host, database)
        await sampled(host, clock.sample())
    records = [line for line in logs if line["action"] == "clock.deviates"]
    assert [line["seconds"] for line in records] == [7.0]
    note = await clock.check()
    assert note is not None
    assert "7.0 s ahead" in note
    with capture_logs() as logs:
        host.wrong = 0.0
        await sampled(host, clock.sample())
    assert [line["action"] for line in logs] == ["clock.agrees"]
    assert await clock.check() is None


async def test_a_database_that_is_away_leaves_the_estimate() -> None:
    host = Host()
    database = Database(host)
    clock = await clock_of(host, database)
    database.away = True
    with pytest.raises(ConnectionError):
        await clock.sample()
    await host.advance(5)
    assert abs(apart(clock, database)) < 0.01

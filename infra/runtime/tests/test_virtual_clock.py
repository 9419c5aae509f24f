"""Virtual time: sleepers wake in order, and a day passes in no time."""

import asyncio
from datetime import timedelta

import pytest

from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock


async def test_time_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock()
    before = clock.now()
    sleeper = asyncio.create_task(clock.sleep(10))
    await clock.advance(9.5)
    assert not sleeper.done()
    assert clock.sleeping == 1
    await clock.advance(0.5)
    assert sleeper.done()
    assert clock.now() - before == timedelta(seconds=10)
    assert clock.monotonic() == 10


async def test_sleepers_wake_by_their_time_and_then_as_they_came() -> None:
    clock, woken = VirtualClock(), list[tuple[str, float]]()

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    tasks = [
        asyncio.create_task(sleep(name, seconds))
        for name, seconds in [("c", 3), ("a", 1), ("b", 1), ("z", 0)]
    ]
    await clock.advance(5)
    assert woken == [("z", 0), ("a", 1), ("b", 1), ("c", 3)]
    await asyncio.gather(*tasks)


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

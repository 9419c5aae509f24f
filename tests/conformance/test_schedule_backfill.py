"""Ticks that are asked for after all, alike in every store."""

from dataclasses import replace
from uuid import uuid4

from tests.conformance.test_schedules import schedule, tick
from tests.store_rows import after

from warrener_contracts.events import TickStatus
from warrener_store.schedules.rows import TickRow
from warrener_store.store import Store


def passed_over(seconds: float, status: TickStatus = TickStatus.SKIPPED) -> TickRow:
    return tick(seconds=seconds, status=status, job_id=None, wake_at=None, request=None, reason="paused")


def backfilled(seconds: float) -> TickRow:
    return tick(seconds=seconds, status=TickStatus.CAUGHT_UP, reason="backfilled", wake_at=after(999))


async def test_ticks_without_a_job_are_backfilled_and_those_with_one_stay(store: Store) -> None:
    await store.put_schedules([schedule()])
    fired, waits = tick(seconds=1), passed_over(3, TickStatus.WAITING)
    await store.add_ticks([fired, passed_over(2), waits, passed_over(4, TickStatus.COALESCED)])
    ticks = [backfilled(seconds) for seconds in range(5)]
    stored = await store.add_ticks(ticks)
    assert sorted(row.nominal_at for row in stored) == [after(0), after(2), after(4)]
    assert await store.ticks_of("hourly", begin=after(0), end=after(4)) == [
        ticks[4],
        waits,
        ticks[2],
        fired,
        ticks[0],
    ]
    assert await store.add_ticks([backfilled(seconds) for seconds in range(5)]) == []
    assert await store.add_ticks([]) == []


async def test_of_two_of_one_nominal_time_the_first_counts(store: Store) -> None:
    first, second = backfilled(1), replace(backfilled(1), job_id=uuid4())
    assert await store.add_ticks([first, second]) != []
    (held,) = await store.ticks_of("hourly", begin=after(0), end=after(9))
    assert held.job_id == first.job_id


async def test_a_span_has_both_its_ends_and_no_other_schedule(store: Store) -> None:
    await store.add_ticks([tick(seconds=seconds) for seconds in range(5)])
    await store.add_ticks([tick("other", seconds=2)])
    found = await store.ticks_of("hourly", None, begin=after(1), end=after(3))
    assert [row.nominal_at for row in found] == [after(3), after(2), after(1)]
    found = await store.ticks_of("hourly", 2, end=after(3))
    assert [row.nominal_at for row in found] == [after(3), after(2)]


async def test_they_are_published_when_their_time_has_come(store: Store) -> None:
    await store.add_ticks([replace(backfilled(n), wake_at=after(100 + n)) for n in range(3)])
    assert await store.next_schedule_wake() == after(100)
    claimed = await store.claim_ticks(after(101), after(200), 10)
    assert sorted(row.nominal_at for row in claimed) == [after(0), after(1)]

"""The history of ticks is bounded, alike in every store."""

from datetime import datetime

from tests.conformance.test_schedules import schedule, tick
from tests.store_rows import after

from warrener_contracts.events import TickStatus
from warrener_store.schedules.rows import EXAMINED_SCHEDULES, OldTicks, TickRow
from warrener_store.schedules.store import REMOVED
from warrener_store.store import Store

NAMES = ("hourly", "yearly")


def over(name: str = "hourly", seconds: float = 0, status: TickStatus = TickStatus.FIRED) -> TickRow:
    return tick(name, seconds, status=status, wake_at=None, request=None)


async def deleted(store: Store, before: datetime, newest: int, limit: int) -> int:
    page = await store.old_ticks("", before, newest, limit)
    there = {one.key: one for name in NAMES for one in await store.ticks_of(name)}
    assert [there[one.key] for one in page.ticks] == page.ticks, "they are found as they are kept"
    assert await store.delete_ticks([one.key for one in page.ticks]) == len(page.ticks)
    assert page.after == ("" if len(page.ticks) >= limit else None), "a schedule may have more"
    return len(page.ticks)


async def test_old_ticks_are_forgotten_in_portions_and_the_newest_stay(store: Store) -> None:
    await store.add_ticks([over(seconds=n) for n in range(10)] + [over("yearly"), over("yearly", 1)])
    assert await deleted(store, after(8), 3, 4) == 4
    assert [one.nominal_at for one in await store.ticks_of("hourly")] == [after(n) for n in range(9, 3, -1)]
    assert await deleted(store, after(8), 3, 4) == 3
    assert await deleted(store, after(8), 3, 4) == 0
    assert [one.nominal_at for one in await store.ticks_of("hourly")] == [after(9), after(8), after(7)]
    assert len(await store.ticks_of("yearly")) == 2, "the newest of each stay, however old"


async def test_what_is_younger_stays(store: Store) -> None:
    await store.add_ticks([over(seconds=n) for n in range(6)])
    assert await deleted(store, after(2), 1, 100) == 2
    assert len(await store.ticks_of("hourly")) == 4


async def test_what_waits_or_is_not_known_to_be_published_is_never_forgotten(store: Store) -> None:
    waiting = over(seconds=1, status=TickStatus.WAITING)
    unpublished = tick(seconds=2)
    await store.add_ticks([over(), waiting, unpublished, over(seconds=3), over(seconds=4)])
    assert await deleted(store, after(100), 1, 100) == 2
    remaining = [one.nominal_at for one in await store.ticks_of("hourly")]
    assert remaining == [after(4), after(2), after(1)]


async def test_the_schedules_that_have_ticked_are_examined_one_after_the_other(store: Store) -> None:
    assert await store.old_ticks("", after(9), 1, 2) == OldTicks([])
    names = [f"s{number:03}" for number in range(EXAMINED_SCHEDULES + 2)]
    await store.add_ticks([over(name, seconds) for name in names for seconds in range(2)])
    first = await store.old_ticks("", after(9), 1, 1000)
    assert [one.schedule for one in first.ticks] == names[:EXAMINED_SCHEDULES]
    assert first.after == names[EXAMINED_SCHEDULES - 1]
    last = await store.old_ticks(names[EXAMINED_SCHEDULES - 1], after(9), 1, 1000)
    assert ([one.schedule for one in last.ticks], last.after) == (names[EXAMINED_SCHEDULES:], None)
    assert await store.old_ticks(names[-1], after(9), 1, 1000) == OldTicks([])


async def test_a_removed_schedule_leaves_no_tick_that_waits(store: Store) -> None:
    await store.put_schedules([schedule(waiting=1)])
    await store.add_ticks(
        [over(), over(seconds=1, status=TickStatus.WAITING), over("other", status=TickStatus.WAITING)]
    )
    await store.remove_schedules(["hourly"], after(60))
    left, fired = await store.ticks_of("hourly")
    assert (left.status, left.reason, left.decided_at) == (TickStatus.SKIPPED, REMOVED, after(60))
    assert fired.status is TickStatus.FIRED
    assert [one.status for one in await store.ticks_of("other")] == [TickStatus.WAITING]


async def test_what_waits_by_now_is_not_deleted(store: Store) -> None:
    await store.add_ticks([over(), over(seconds=1)])
    unpublished = tick(seconds=2)
    await store.add_ticks([unpublished])
    assert await store.delete_ticks([over().key, unpublished.key, ("unknown", after(0))]) == 1
    assert [one.nominal_at for one in await store.ticks_of("hourly")] == [after(2), after(1)]

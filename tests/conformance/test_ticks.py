"""Ticks after their time, alike in every store: backfill, expectations, and the bounded history."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.conformance.test_schedules import schedule, tick
from tests.store_rows import NOON, after, died, running_job, succeeded

from warrener_contracts.events import TickStatus
from warrener_contracts.state_machine import JobState
from warrener_store.schedules import rows
from warrener_store.schedules.store import REMOVED
from warrener_store.store import Store


def passed_over(seconds: float, status: TickStatus = TickStatus.SKIPPED) -> rows.TickRow:
    return tick(seconds=seconds, status=status, job_id=None, wake_at=None, request=None, reason="paused")


def backfilled(seconds: float) -> rows.TickRow:
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
    first, second = backfilled(60), backfilled(60)
    assert await store.add_ticks([first, second]) == [first], "of two of one nominal time the first counts"
    assert await store.ticks_of("hourly", begin=after(60)) == [first]


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


def expecting(name: str = "hourly", seconds: float = 0, **choices: Any) -> rows.ScheduleRow:
    """A schedule that was put then; if nothing is said, it is paused after three failures."""
    row = schedule(name, put_at=after(seconds))
    expected = row.definition.choices.model_copy(update=choices or {"pause_after_failures": 3})
    return replace(row, definition=row.definition.model_copy(update={"choices": expected}))


def watch(name: str = "hourly", seconds: float = 0, **changes: object) -> rows.WatchRow:
    row = rows.WatchRow(name=name, pause_after=3, since=NOON, check_at=after(seconds))
    return replace(row, **changes)  # type: ignore[arg-type] # as many as a test needs


async def looked_at(store: Store, seconds: float = 0) -> list[rows.WatchedSchedule]:
    return await store.claim_watches(after(seconds), after(seconds + 10), 10)


async def fired(store: Store, seconds: float, state: JobState | None = None) -> UUID:
    """A tick whose job is in this state, or was never accepted."""
    job_id = uuid4()
    if state is not None:
        job = running_job(job_id=job_id)
        await store.insert_jobs([job])
        if state is not JobState.RUNNING:
            ended = succeeded(job) if state is JobState.SUCCEEDED else died(job)
            await store.save_jobs([replace(ended, row=replace(ended.row, finished_at=after(seconds + 1)))])
    requested = tick(seconds=seconds, job_id=job_id, fired_at=after(seconds), wake_at=None, request=None)
    await store.add_ticks([requested])
    return job_id


class TestClaiming:
    async def test_they_come_back_as_they_went_and_are_claimed_once(self, store: Store) -> None:
        other = expecting("other", expect_success_within=timedelta(minutes=1.5))
        await store.put_schedules([expecting(), replace(other, paused=True), expecting("later", 60)])
        await store.put_schedules([schedule("unwatched")])
        within = watch("other", pause_after=None, success_within=timedelta(minutes=1.5))
        claimed = sorted(await looked_at(store), key=lambda found: found.row.name)
        assert claimed == [
            rows.WatchedSchedule(replace(watch(), check_at=after(10)), paused=False),
            rows.WatchedSchedule(replace(within, check_at=after(10)), paused=True),
        ]
        assert await looked_at(store) == []
        assert len(await looked_at(store, 60)) == 3

    async def test_no_more_than_the_limit_and_the_longest_due_first(self, store: Store) -> None:
        names = [f"s{n}" for n in range(4)]
        await store.put_schedules([expecting(name, -place) for place, name in enumerate(names)])
        found = await store.claim_watches(NOON, after(10), 2)
        assert {each.row.name for each in found} == {"s3", "s2"}

    async def test_a_new_word_leaves_how_far_it_has_come(self, store: Store) -> None:
        await store.put_schedules([expecting()])
        known = watch(last_success_tick=after(5), last_success_at=after(6))
        await store.note_successes([known])
        await store.note_successes([replace(known, last_success_tick=after(4)), watch("unknown")])
        await store.put_schedules([expecting(seconds=50, pause_after_failures=7)])
        assert await store.put_schedules([expecting(seconds=-50, pause_after_failures=9)]) == set(), "older"
        (found,) = await looked_at(store)
        assert found.row == replace(known, pause_after=7, check_at=after(10))

    async def test_the_watch_of_a_resumed_schedule_counts_from_then(self, store: Store) -> None:
        await store.put_schedules([expecting()])
        await store.pause_schedules(["hourly", "unknown"], after(30), paused=False)
        await store.pause_schedules(["hourly"], after(20), paused=False)
        await store.pause_schedules(["hourly"], after(40), paused=True)
        (found,) = await looked_at(store)
        assert (found.row.since, found.paused) == (after(30), True)

    async def test_a_watch_ends_where_it_is_withdrawn_or_its_schedule_is_removed(self, store: Store) -> None:
        await store.put_schedules([expecting(), expecting("other"), expecting("kept")])
        await store.put_schedules([schedule(put_at=after(1))])
        await store.remove_schedules(["other"], NOON)
        await store.put_schedules([schedule("other")])
        assert [found.row.name for found in await looked_at(store)] == ["kept"]

    async def test_the_ticks_since_the_last_success_are_there_with_their_jobs(self, store: Store) -> None:
        await store.put_schedules([expecting()])
        await fired(store, 1, JobState.DEAD)
        await fired(store, 2, JobState.SUCCEEDED)
        await fired(store, 3)
        await fired(store, 4, JobState.RUNNING)
        await store.add_ticks(
            [tick(seconds=5, status=TickStatus.SKIPPED, job_id=None, wake_at=None, request=None)]
        )
        (found,) = await looked_at(store)
        assert [(run.nominal_at, run.state, run.finished_at) for run in found.runs] == [
            (after(4), JobState.RUNNING, None),
            (after(3), None, None),
            (after(2), JobState.SUCCEEDED, after(3)),
            (after(1), JobState.DEAD, after(2)),
        ]
        assert (found.runs[0].fired_at, found.runs[0].decided_at) == (after(4), after(5))
        await store.note_successes([watch(last_success_tick=after(2), last_success_at=after(3))])
        (found,) = await looked_at(store, 10)
        assert [run.nominal_at for run in found.runs] == [after(4), after(3), after(2)]


class TestQuestions:
    async def test_late_is_whose_tick_or_look_was_due(self, store: Store) -> None:
        await store.put_schedules(
            [
                schedule("late", -60, next_at=after(-60)),
                schedule("put.off", 30, next_at=after(-60)),
                schedule("put.off.for.long", 300, next_at=after(-60)),
                schedule("waits", -1, next_at=after(3600)),
                schedule("over", wake_at=None, next_at=None),
                schedule("on.time", 30, next_at=after(30)),
            ]
        )
        late = await store.late_schedules(NOON, after(60), 10)
        assert [row.name for row in late] == ["late", "waits", "put.off"]
        assert [row.name for row in await store.late_schedules(NOON, after(60), 1)] == ["late"]

    async def test_the_last_success_is_the_newest_tick_whose_job_has_succeeded(self, store: Store) -> None:
        assert await store.last_success("hourly") is None
        for seconds, state in (
            (1, JobState.SUCCEEDED),
            (2, JobState.SUCCEEDED),
            (3, JobState.DEAD),
            (4, None),
        ):
            await fired(store, seconds, state)
        assert await store.last_success("hourly") == after(2)
        assert await store.last_success("other") is None


NAMES = ("hourly", "yearly")


def over(name: str = "hourly", seconds: float = 0, status: TickStatus = TickStatus.FIRED) -> rows.TickRow:
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
    assert await store.old_ticks("", after(9), 1, 2) == rows.OldTicks([])
    names = [f"s{number:03}" for number in range(rows.EXAMINED_SCHEDULES + 2)]
    await store.add_ticks([over(name, seconds) for name in names for seconds in range(2)])
    first = await store.old_ticks("", after(9), 1, 1000)
    assert [one.schedule for one in first.ticks] == names[: rows.EXAMINED_SCHEDULES]
    assert first.after == names[rows.EXAMINED_SCHEDULES - 1]
    last = await store.old_ticks(names[rows.EXAMINED_SCHEDULES - 1], after(9), 1, 1000)
    assert ([one.schedule for one in last.ticks], last.after) == (names[rows.EXAMINED_SCHEDULES :], None)
    assert await store.old_ticks(names[-1], after(9), 1, 1000) == rows.OldTicks([])


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

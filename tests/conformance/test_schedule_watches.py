"""What is expected of schedules, alike in every store."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.conformance.test_schedules import schedule, tick
from tests.store_rows import NOON, after, died, running_job, succeeded

from warrener_contracts.events import TickStatus
from warrener_contracts.state_machine import JobState
from warrener_store.schedules.rows import ScheduleRow, WatchedSchedule, WatchRow
from warrener_store.store import Store


def expecting(name: str = "hourly", seconds: float = 0, **choices: Any) -> ScheduleRow:
    """A schedule that was put then; if nothing is said, it is paused after three failures."""
    row = schedule(name, put_at=after(seconds))
    expected = row.definition.choices.model_copy(update=choices or {"pause_after_failures": 3})
    return replace(row, definition=row.definition.model_copy(update={"choices": expected}))


def watch(name: str = "hourly", seconds: float = 0, **changes: object) -> WatchRow:
    row = WatchRow(name=name, pause_after=3, since=NOON, check_at=after(seconds))
    return replace(row, **changes)  # type: ignore[arg-type] # as many as a test needs


async def looked_at(store: Store, seconds: float = 0) -> list[WatchedSchedule]:
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
            WatchedSchedule(replace(watch(), check_at=after(10)), paused=False),
            WatchedSchedule(replace(within, check_at=after(10)), paused=True),
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

"""Schedules, their declarations and their ticks, alike in every store."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from tests.store_rows import NOON, after, running_job

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.schedule_rules import CronRule, IntervalRule, ScheduleChoices
from warrener_contracts.state_machine import JobState
from warrener_store.schedules.rows import (
    Advance,
    DeclarationRow,
    DueSchedule,
    RejectedTick,
    ScheduleRow,
    TickRow,
)
from warrener_store.schedules.store import Decide
from warrener_store.store import Store

LATER = after(3600)


def schedule(name: str = "hourly", seconds: float = 0, **changes: object) -> ScheduleRow:
    definition = SchedulePutData(
        name=name,
        rule=CronRule(expression="0 * * * *"),
        timezone="Europe/Berlin",
        job_type="flights.load",
        arguments={"path": "a\x1a.csv", "none": None},
        choices=ScheduleChoices(jitter=timedelta(seconds=5), start=NOON),
    )
    row = ScheduleRow(
        definition=definition, put_at=NOON, zone_version="2026a", next_at=NOON, wake_at=after(seconds)
    )
    return replace(row, **changes)  # type: ignore[arg-type] # as many as a test needs


def tick(name: str = "hourly", seconds: float = 0, **changes: object) -> TickRow:
    row = TickRow(
        schedule=name,
        nominal_at=after(seconds),
        status=TickStatus.FIRED,
        due_at=after(seconds),
        decided_at=after(seconds + 1),
        reason="none\x00 at all",
        job_id=uuid4(),
        wake_at=after(seconds + 10),
        request='{"id":"1"}',
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def on_to(seconds: float, *ticks: TickRow) -> Advance:
    return Advance(schedule(seconds=seconds, next_at=after(seconds), last_nominal_at=NOON, runs=1), ticks)


def with_interval(row: ScheduleRow) -> SchedulePutData:
    return row.definition.model_copy(update={"rule": IntervalRule(every=timedelta(minutes=1))})


def _always(advances: Sequence[Advance]) -> Decide:
    return lambda due: advances


class TestPutting:
    async def test_they_come_back_as_they_went(self, store: Store) -> None:
        rows = schedule(), schedule("other", paused=True, last_job_id=uuid4(), waiting=2, runs=7)
        assert await store.put_schedules(rows) == {"hourly", "other"}
        assert await store.schedules() == {row.name: row for row in rows}
        assert await store.schedules(["other", "unknown"]) == {"other": rows[1]}
        assert await store.schedules([]) == {}
        assert await store.put_schedules([]) == set()

    async def test_a_newer_definition_replaces_the_old_one_and_leaves_the_progress(
        self, store: Store
    ) -> None:
        old = schedule(paused=True, runs=5)
        await store.put_schedules([old])
        assert await store.put_schedules([schedule(put_at=LATER, wake_at=LATER)]) == set(), "an equal one"
        assert await store.schedules() == {"hourly": old}
        new = schedule(definition=with_interval(schedule()), put_at=LATER, next_at=LATER, wake_at=LATER)
        older = replace(new, put_at=after(-1))
        assert await store.put_schedules([older]) == set()
        assert await store.put_schedules([older, new]) == {"hourly"}
        assert await store.schedules() == {"hourly": replace(new, paused=True, runs=5)}

    async def test_one_that_is_put_again_while_ticks_wait_is_checked_then(self, store: Store) -> None:
        await store.put_schedules([schedule(waiting=1), schedule("other")])
        rows = (schedule(name, put_at=after(5), next_at=None, wake_at=None) for name in ("hourly", "other"))
        await store.put_schedules([replace(row, definition=with_interval(row)) for row in rows])
        held = await store.schedules()
        assert (held["hourly"].wake_at, held["hourly"].waiting) == (after(5), 1)
        assert held["other"].wake_at is None

    async def test_pausing_resuming_and_removing(self, store: Store) -> None:
        await store.put_schedules([schedule(), schedule("other")])
        await store.add_ticks([tick()])
        await store.pause_schedules(["hourly", "unknown"], NOON, paused=True, why="clo\x00sed")
        held = (await store.schedules()).values()
        assert [(row.paused, row.pause_reason) for row in held] == [(True, "clo\x00sed"), (False, "")]
        await store.pause_schedules(["hourly"], NOON, paused=False)
        await store.remove_schedules(["other", "unknown"], LATER)
        assert await store.schedules() == {"hourly": schedule()}
        await store.remove_schedules(["hourly"], LATER)
        assert await store.ticks_of("hourly") == [tick(job_id=(await store.ticks_of("hourly"))[0].job_id)]

    async def test_a_schedule_is_released_from_the_job_that_it_waits_for_and_from_no_other(
        self, store: Store
    ) -> None:
        job_id, other = uuid4(), uuid4()
        await store.put_schedules([schedule(last_job_id=job_id), schedule("other", last_job_id=other)])
        names = "hourly", "other", "unknown"
        await store.reject_ticks([RejectedTick(name, job_id, "rejected: why") for name in names])
        held = await store.schedules()
        assert (held["hourly"].last_job_id, held["other"].last_job_id) == (None, other)
        await store.reject_ticks([])

    async def test_a_tick_has_the_reason_why_its_request_was_rejected(self, store: Store) -> None:
        await store.put_schedules([schedule()])
        first, second = tick(), tick(seconds=60)
        await store.add_ticks([first, second])
        assert first.job_id is not None
        for _ in range(2):
            await store.reject_ticks([RejectedTick("hourly", first.job_id, "rejected: no\x00 such type")])
        reasons = [each.reason for each in await store.ticks_of("hourly")]
        assert reasons == [second.reason, "rejected: no\x00 such type"]


class TestAdvancing:
    async def test_those_that_are_due_are_decided_with_their_ticks(self, store: Store) -> None:
        await store.put_schedules([schedule(), schedule("later", 60)])
        fired = tick()
        seen: list[DueSchedule] = []

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            seen.extend(due)
            return [on_to(120, fired)]

        assert await store.advance_schedules(after(1), 10, decide) == [fired]
        assert seen == [DueSchedule(schedule())]
        assert (await store.schedules())["hourly"] == on_to(120).row
        assert await store.ticks_of("hourly") == [fired]
        assert await store.advance_schedules(after(1), 10, _must_not_decide) == []
        assert await store.next_schedule_wake() == fired.wake_at

    async def test_the_longest_waiting_come_first_and_no_more_than_the_limit(self, store: Store) -> None:
        await store.put_schedules([schedule(f"s{n}", -n) for n in range(5)])
        seen: list[str] = []

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            seen.extend(found.row.name for found in due)
            return [Advance(replace(found.row, wake_at=LATER)) for found in due]

        await store.advance_schedules(NOON, 3, decide)
        assert seen == ["s4", "s3", "s2"]
        await store.advance_schedules(NOON, 3, decide)
        assert seen == ["s4", "s3", "s2", "s1", "s0"]

    async def test_a_batch_comes_back_as_it_went_whether_its_rows_are_equal_or_not(
        self, store: Store
    ) -> None:
        for statuses in ([TickStatus.FIRED] * 3, [TickStatus.FIRED, TickStatus.SKIPPED, TickStatus.FIRED]):
            names = [f"{'-'.join(statuses)}.{number}" for number in range(3)]
            await store.put_schedules([schedule(name) for name in names])
            ticks = [tick(name, status=status) for name, status in zip(names, statuses, strict=True)]
            rows = [
                schedule(name, 60, runs=status is TickStatus.FIRED)
                for name, status in zip(names, statuses, strict=True)
            ]
            advances = [Advance(row, (one,)) for row, one in zip(rows, ticks, strict=True)]
            assert await store.advance_schedules(after(1), 10, _always(advances)) == ticks
            assert await store.schedules(names) == {row.name: row for row in rows}
            added = [replace(one, nominal_at=LATER, job_id=uuid4()) for one in ticks]
            await store.add_ticks(added)
            for one, more in zip(ticks, added, strict=True):
                assert await store.ticks_of(one.schedule) == [more, one]

    async def test_a_tick_is_decided_once(self, store: Store) -> None:
        await store.put_schedules([schedule()])
        first, again = tick(), tick(status=TickStatus.SKIPPED, wake_at=None, request=None)
        assert await store.advance_schedules(NOON, 1, lambda _: [on_to(0, first)]) == [first]
        assert await store.advance_schedules(NOON, 1, lambda _: [on_to(60, again, tick(seconds=1))]) != []
        assert (await store.ticks_of("hourly"))[-1] == first

    async def test_a_waiting_tick_is_decided_once_more(self, store: Store) -> None:
        waiting = tick(status=TickStatus.WAITING, wake_at=None, request=None)
        other = replace(waiting, nominal_at=after(5))
        await store.put_schedules([schedule(waiting=2)])
        await store.add_ticks([other, waiting])
        fired = tick(job_id=waiting.job_id)

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            assert [found.oldest_waiting for found in due] == [waiting.nominal_at]
            return [on_to(60, fired)]

        assert await store.advance_schedules(NOON, 1, decide) == [fired]
        assert await store.ticks_of("hourly") == [other, fired]

    async def test_the_state_of_the_last_job_is_known(self, store: Store) -> None:
        job = running_job()
        await store.insert_jobs([job])
        await store.put_schedules([schedule(last_job_id=job.job_id), schedule("z", last_job_id=uuid4())])
        seen: list[JobState | None] = []

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            seen.extend(found.last_job for found in due)
            return [Advance(found.row) for found in due]

        await store.advance_schedules(NOON, 5, decide)
        assert seen == [job.state, None]

    async def test_what_was_put_while_it_was_decided_is_not_lost(self, store: Store) -> None:
        await store.put_schedules([schedule()])
        definition = with_interval(schedule())
        new = schedule(definition=definition, put_at=LATER, next_at=LATER, wake_at=LATER)
        await asyncio.gather(
            store.advance_schedules(NOON, 1, lambda due: [on_to(60)] if due else []),
            store.put_schedules([new]),
        )
        assert (await store.schedules())["hourly"].definition == definition

    async def test_an_error_while_deciding_changes_nothing(self, store: Store) -> None:
        await store.put_schedules([schedule()])

        def fail(_: Sequence[DueSchedule]) -> list[Advance]:
            raise RuntimeError("a bug")

        with pytest.raises(RuntimeError, match="a bug"):
            await store.advance_schedules(NOON, 1, fail)
        assert await store.schedules() == {"hourly": schedule()}
        assert await store.advance_schedules(NOON, 1, lambda _: [on_to(60)]) == []

    async def test_many_schedulers_at_once_decide_each_tick_once(self, store: Store) -> None:
        await store.put_schedules([schedule(f"s{n:03}") for n in range(100)])
        stored: list[TickRow] = []

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            return [Advance(replace(f.row, wake_at=LATER), (tick(f.row.name),)) for f in due]

        async def scheduler() -> None:
            while found := await store.advance_schedules(NOON, 7, decide):
                stored.extend(found)

        await asyncio.gather(*(scheduler() for _ in range(4)))
        while found := await store.advance_schedules(NOON, 7, decide):  # what a locked row hid from all
            stored.extend(found)
        assert sorted(one.schedule for one in stored) == [f"s{n:03}" for n in range(100)]


class TestPublishing:
    async def test_what_is_not_confirmed_is_claimed_once_its_time_has_come(self, store: Store) -> None:
        unsure, sure = tick(), tick(seconds=1)
        await store.add_ticks([unsure, sure, tick("skipped", wake_at=None, request=None)])
        await store.mark_ticks([sure.key], after(2))
        assert await store.claim_ticks(after(9), after(30), 5) == []
        assert await store.claim_ticks(after(10), after(30), 5) == [replace(unsure, wake_at=after(30))]
        assert await store.claim_ticks(after(10), after(30), 5) == []
        await store.mark_ticks([sure.key, ("unknown", NOON)], after(3))
        await store.mark_ticks([], after(3))
        marked = replace(sure, fired_at=after(2), wake_at=None, request=None)
        assert (await store.ticks_of("hourly"))[0] == marked

    async def test_the_next_wake_is_the_earliest_of_all(self, store: Store) -> None:
        assert await store.next_schedule_wake() is None
        await store.put_schedules([schedule(seconds=60), schedule("over", wake_at=None, next_at=None)])
        assert await store.next_schedule_wake() == after(60)
        await store.add_ticks([tick()])
        assert await store.next_schedule_wake() == after(10)

    async def test_the_ledger_is_read_backwards(self, store: Store) -> None:
        ticks = [tick(seconds=n) for n in range(5)]
        await store.add_ticks([*ticks, tick("other")])
        assert await store.ticks_of("hourly", 2) == [ticks[4], ticks[3]]

    async def test_another_zone_database_wakes_what_was_planned_by_the_old_one(self, store: Store) -> None:
        await store.put_schedules([schedule("old", 60), schedule("new", 60, zone_version="2026b")])
        await store.replan_schedules("2026b", NOON)
        assert [row.wake_at for row in (await store.schedules()).values()] == [after(60), NOON]


def _must_not_decide(due: Sequence[DueSchedule]) -> list[Advance]:
    raise AssertionError(f"expected nothing due, got {due}")


FIRST = DeclarationRow(
    name="hourly", definition_hash="aa", job_type="flights.load", declared_by="agent-1", declared_at=NOON
)
SECOND = replace(FIRST, definition_hash="bb", declared_at=after(1))
OTHER = replace(FIRST, name="nightly", job_type="mail.send")


async def test_the_first_word_of_a_declaration_counts(store: Store) -> None:
    await store.keep_declarations([FIRST, SECOND])
    await store.keep_declarations([replace(FIRST, declared_by="agent-2", declared_at=after(9)), FIRST])
    assert await store.declarations(["hourly"]) == [FIRST, SECOND]


async def test_they_are_found_by_schedule_and_by_job_type(store: Store) -> None:
    await store.keep_declarations([FIRST, OTHER, OTHER])
    assert await store.declarations([]) == []
    assert await store.declarations(["nightly"]) == [OTHER]
    assert await store.declarations([], ["flights.load"]) == [FIRST]
    assert await store.declarations(["nightly"], ["flights.load"]) == [FIRST, OTHER]

"""The stories of what schedules wait for, alike in every store."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid5

from tests.store_rows import NOON, after, schedule_row, tick_row

from warrener_contracts.events import TickStatus
from warrener_contracts.schedule_rules import CronRule, Rule
from warrener_contracts.triggers import AfterRule, EventRule, Upstream
from warrener_store.schedules.rows import (
    Advance,
    ArrivalOutcome,
    ArrivalRow,
    DueSchedule,
    ScheduleRow,
    TickRow,
)
from warrener_store.store import Store

_EVENTS = UUID(int=7)
ON_FILE = EventRule(key="file.*")
EACH_MINUTE = CronRule(expression="* * * * *")


def schedule(name: str = "on.file", rule: Rule = ON_FILE, **fields: Any) -> ScheduleRow:
    return schedule_row(name, rule, **fields)


def arrival(number: int = 1, name: str = "on.file", **changes: object) -> ArrivalRow:
    row = ArrivalRow(
        schedule=name,
        event_id=uuid5(_EVENTS, str(number)),
        occurred_at=after(number),
        received_at=after(60),
        upstream="schedule:nightly",
        event='{"id": "a\x1a\x00b", "path": "\u00e4"}',
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def tick(number: int = 1) -> TickRow:
    return tick_row("on.file", after(number), TickStatus.SKIPPED, decided_at=after(60))


class TestWaiting:
    async def test_schedules_that_wait_are_found_among_all(self, store: Store) -> None:
        after_b = AfterRule(upstreams=(Upstream(job_type="b"),))
        tricky = {"rule": {"kind": "event", "key": "x"}}
        rows = [schedule("cron", EACH_MINUTE, arguments=tricky), schedule("after", after_b, arguments=tricky)]
        assert await store.schedules(triggered=True) == {}
        await store.put_schedules([*rows, schedule()])
        found = await store.schedules(triggered=True)
        assert [*found] == ["after", "on.file"]
        assert found["on.file"] == schedule()
        assert [*await store.schedules(["on.file", "cron"], triggered=True)] == ["on.file"]

    async def test_what_may_be_bound_is_noted_and_forgotten(self, store: Store) -> None:
        first, second = ("warrener.events", "file.*"), ("exch\x00ange", "#")
        assert await store.triggers.add_bindings([first]) == {first}
        assert await store.triggers.add_bindings([second, first]) == {first, second}
        await store.triggers.remove_bindings([first, ("unknown", "#")])
        await store.triggers.remove_bindings([])
        assert await store.triggers.add_bindings([]) == {second}

    async def test_what_is_open_goes_with_its_schedule(self, store: Store) -> None:
        triggers = store.triggers
        await store.put_schedules([schedule(), schedule("other")])
        await triggers.add_arrivals([arrival(), arrival(2), arrival(1, "other")])
        await store.advance_schedules(after(60), 1, lambda due: [_settling(due[0], arrival())])
        await store.remove_schedules(["on.file", "unknown"], after(61))
        await store.remove_schedules([], after(61))
        assert await triggers.arrivals_of("on.file") == []
        assert await triggers.arrivals_of("other") == [arrival(1, "other")]
        await store.put_schedules([schedule()])
        await triggers.add_arrivals([arrival(), arrival(2)])
        assert await triggers.arrivals_of("on.file") == [arrival(2)], "what has counted counts no more"


class TestArrivals:
    async def test_each_counts_once_and_wakes_its_schedule(self, store: Store) -> None:
        await store.put_schedules([schedule(), schedule("soon", wake_at=after(5))])
        unknown = arrival(1, "unknown")
        await store.triggers.add_arrivals([arrival(2), arrival(), arrival(), arrival(1, "soon"), unknown])
        await store.triggers.add_arrivals([arrival(received_at=after(99), event="{}")])
        assert await store.triggers.arrivals_of("on.file") == [arrival(), arrival(2)]
        rows = await store.schedules()
        assert [rows[name].wake_at for name in ("on.file", "soon")] == [after(60), after(5)]
        assert await store.triggers.arrivals_of("unknown") == []
        await store.triggers.add_arrivals([])

    async def test_they_are_decided_and_settled_with_their_ticks(self, store: Store) -> None:
        await store.put_schedules([schedule(), schedule("clock", EACH_MINUTE, wake_at=NOON)])
        await store.triggers.add_arrivals([arrival(2), arrival()])
        seen: list[DueSchedule] = []

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            seen.extend(due)
            return [
                Advance(
                    replace(one.row, wake_at=None),
                    (tick(),),
                    (ArrivalOutcome("on.file", arrival().event_id),),
                )
                if one.arrivals
                else Advance(replace(one.row, wake_at=None))
                for one in due
            ]

        assert await store.advance_schedules(after(60), 5, decide) == [tick()]
        assert {one.row.name: one.arrivals for one in seen} == {
            "on.file": (arrival(), arrival(2)),
            "clock": (),
        }
        assert await store.triggers.arrivals_of("on.file") == [arrival(2)]

    async def test_one_whose_tick_waits_stays_open_and_the_oldest_of_them_comes_first(
        self, store: Store
    ) -> None:
        await store.put_schedules([schedule()])
        await store.triggers.add_arrivals([arrival(number) for number in (1, 2, 3)])
        waits = [ArrivalOutcome("on.file", arrival(number).event_id, after(10 + number)) for number in (2, 1)]
        await store.advance_schedules(
            after(60), 1, lambda due: [Advance(replace(due[0].row, wake_at=NOON), (), tuple(waits))]
        )
        first = arrival(1, nominal_at=after(11))
        seen: list[DueSchedule] = []

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            seen.extend(due)
            return [_settling(due[0], first)]

        await store.advance_schedules(after(60), 1, decide)
        assert seen[0].arrivals == (first, arrival(3))
        assert await store.triggers.arrivals_of("on.file") == [arrival(2, nominal_at=after(12)), arrival(3)]

    async def test_what_is_over_is_forgotten_after_a_while(self, store: Store) -> None:
        await store.put_schedules([schedule()])
        await store.triggers.add_arrivals([arrival(), arrival(2)])
        await store.advance_schedules(after(60), 1, lambda due: [_settling(due[0], arrival())])
        await store.triggers.delete_old_arrivals(after(60))
        await store.triggers.add_arrivals([arrival()])
        assert await store.triggers.arrivals_of("on.file") == [arrival(2)], "it was heard not long ago"
        await store.triggers.delete_old_arrivals(after(61))
        await store.triggers.add_arrivals([arrival()])
        assert await store.triggers.arrivals_of("on.file") == [arrival(), arrival(2)]
        await store.put_schedules([schedule(rule=EACH_MINUTE, put_at=after(61))])
        await store.triggers.delete_old_arrivals(after(61))
        assert await store.triggers.arrivals_of("on.file") == []

    async def test_many_schedulers_at_once_count_each_event_once(self, store: Store) -> None:
        names = [f"s{number}" for number in range(10)]
        await store.put_schedules([schedule(name) for name in names])
        counted: list[tuple[str, str]] = []
        seconds = count(100)

        def counted_once(row: ArrivalRow) -> TickRow:
            """A tick at a time of its own: an arrival that counted twice would have two."""
            nominal_at = after(next(seconds))
            return replace(tick(), schedule=row.schedule, nominal_at=nominal_at, reason=str(row.event_id))

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            return [
                Advance(
                    replace(one.row, wake_at=None),
                    tuple(map(counted_once, one.arrivals)),
                    tuple(ArrivalOutcome(row.schedule, row.event_id) for row in one.arrivals),
                )
                for one in due
            ]

        async def look(now: datetime, limit: int) -> None:
            stored = await store.advance_schedules(now, limit, decide)
            counted.extend((one.schedule, one.reason) for one in stored)

        async def scheduler(turn: int) -> None:
            for number in range(10):
                rows = [arrival(number, name) for name in (names if turn % 2 else names[::-1])]
                await store.triggers.add_arrivals(rows)
                await look(after(60), 3)

        await asyncio.gather(*(scheduler(turn) for turn in range(4)))
        while any((row.wake_at is not None) for row in (await store.schedules()).values()):
            await look(after(60) + timedelta(hours=1), 100)
        assert sorted(counted) == sorted(
            (name, str(arrival(number).event_id)) for name in names for number in range(10)
        )


def _settling(due: DueSchedule, *rows: ArrivalRow) -> Advance:
    settled = tuple(ArrivalOutcome(row.schedule, row.event_id) for row in rows)
    return Advance(replace(due.row, wake_at=None), (), settled)

"""How a schedule goes on: which ticks are due, and what becomes of each. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.schedule_rules import MisfirePolicy, OnceRule, OverlapPolicy
from warrener_contracts.triggers import TriggerRule
from warrener_scheduler.calendar.instant import INSTANT
from warrener_scheduler.calendar.ticks import due_at, nominal_times
from warrener_scheduler.schedules.event_ticks import decide_event_ticks
from warrener_scheduler.schedules.tick_batch import TickBatch
from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow

BATCH_SIZE = 1000
"""Nominal times that are decided at once at most: a schedule that was not looked at for a year is caught up
with in several transactions, and the others have their turn between."""
DECISION_LEAD = timedelta(milliseconds=50)
"""So long before it is due a tick is decided and kept: all that is left to do then is to ask for its job."""
MAX_PUT_BACKLOG = timedelta(days=1)
"""So far back ticks are accounted for that were due between a schedule.put and the day it was heard: its time
may be years old, and each tick since then would be a row."""
_RECHECK_INTERVAL = timedelta(seconds=1)
_NOTHING = timedelta(0)


def decide_ticks(due: DueSchedule, now: datetime, zone_version: str) -> Advance:
    """Decide what is due by `now`, or the next tick if it is due within its lead; and when to look next."""
    row = due.row
    if isinstance(row.asked.rule, TriggerRule):
        return decide_event_ticks(due, now, zone_version)
    most = BATCH_SIZE + row.asked.choices.catch_up_most
    ready, following = _ready(row, _nominal_times(row, zone_version, now), _until(row, now), most + 1)
    batch = TickBatch(due, now)
    batch.release_waiting()
    decided = ready[:BATCH_SIZE]
    on_time = 0 < len(ready) <= most and now - due_at(row.asked, ready[-1]) <= row.asked.choices.grace
    for place, nominal_at in enumerate(decided):
        if batch.is_exhausted:
            break
        backlog = len(ready) - 1 - place
        _decide(batch, nominal_at, _Backlog(backlog, backlog - on_time))
    last_at = decided[-1] if decided else row.last_at
    next_at = None if batch.is_exhausted else next(iter(ready[BATCH_SIZE:]), following)
    wake_at = _wake_at(row.asked, next_at, now, waiting=batch.waiting > 0)
    return Advance(batch.updated_row(zone_version, last_at, next_at, wake_at), tuple(batch.ticks))


def plan_first_tick(row: ScheduleRow, now: datetime) -> ScheduleRow:
    """A schedule as it is put: its first tick is the first one since then, or within the last day."""
    if isinstance(row.asked.rule, TriggerRule):
        return replace(row, wake_at=row.put_at)  # for what the rule before it has left
    next_at = next(nominal_times(row.asked, row.put_at, _start_before_first(row, now)), None)
    return replace(row, next_at=next_at, wake_at=_wake_at(row.asked, next_at, row.put_at, waiting=False))


def _lead(spec: SchedulePutData) -> timedelta:
    """Nothing where the decision hangs on whether the last job is over when the tick is due."""
    return DECISION_LEAD if spec.choices.overlap is OverlapPolicy.ALLOW else _NOTHING


def _until(row: ScheduleRow, now: datetime) -> datetime:
    """What is due by then is decided. While anything is due already, nothing is decided ahead: a tick is not
    missed before the next one is due indeed."""
    if row.next_at is None:
        return now
    return max(now, min(due_at(row.asked, row.next_at), now + _lead(row.asked)))


def _start_before_first(row: ScheduleRow, now: datetime) -> datetime:
    """The last moment at which it cannot tick yet. Of a single tick its whole past counts: it is one row.
    What is planned already is not put off: it may have been due while no scheduler ran."""
    if isinstance(row.asked.rule, OnceRule):
        return row.put_at - INSTANT
    return max(row.put_at, min(now, row.next_at or now) - MAX_PUT_BACKLOG) - INSTANT


def _nominal_times(row: ScheduleRow, zone_version: str, now: datetime) -> chain[datetime]:
    """From the next one on. What another time zone database has planned is planned anew."""
    if row.next_at is not None and row.zone_version == zone_version:
        return chain((row.next_at,), nominal_times(row.asked, row.put_at, row.next_at))
    if row.next_at is None:
        return chain(())
    if row.last_at is None:
        return chain(nominal_times(row.asked, row.put_at, _start_before_first(row, now)))
    # What was decided before it was put anew was by another rule: nothing in between was missed.
    return chain(nominal_times(row.asked, row.put_at, max(row.last_at, row.put_at - INSTANT)))


def _ready(
    row: ScheduleRow, times: Iterable[datetime], until: datetime, most: int
) -> tuple[list[datetime], datetime | None]:
    """What is due by then, the first so many of it, and the one that follows."""
    ready = list[datetime]()
    for nominal_at in times:
        if len(ready) == most or due_at(row.asked, nominal_at) > until:
            return ready, nominal_at
        ready.append(nominal_at)
    return ready, None


def _wake_at(
    spec: SchedulePutData, next_at: datetime | None, now: datetime, *, waiting: bool
) -> datetime | None:
    """When somebody must look at it next. While a tick waits, soon: nobody tells us of the end of a job."""
    ahead = None if next_at is None else due_at(spec, next_at) - _lead(spec)
    if not waiting:
        return ahead
    return min(ahead or now + _RECHECK_INTERVAL, now + _RECHECK_INTERVAL)


class _Backlog(NamedTuple):
    """How many later ticks are due already, and how many of them were missed."""

    due: int
    missed: int


def _decide(batch: TickBatch, nominal_at: datetime, backlog: _Backlog) -> None:
    choices = batch.choices
    late = batch.now - due_at(batch.spec, nominal_at)
    if batch.paused:
        batch.skip_paused(nominal_at)
    elif not backlog.due and late <= choices.grace:
        batch.run(nominal_at, TickStatus.FIRED)
    elif reason := _skip_reason(batch, nominal_at, backlog):
        status = TickStatus.COALESCED if choices.misfire is MisfirePolicy.ONCE else TickStatus.SKIPPED
        batch.record(nominal_at, status, reason)
    else:
        batch.run(nominal_at, TickStatus.CAUGHT_UP, f"missed: {_seconds(late)} late")


def _skip_reason(batch: TickBatch, nominal_at: datetime, backlog: _Backlog) -> str:
    """Why a tick that was missed asks for no job; empty where it does."""
    choices, age = batch.choices, batch.now - nominal_at
    match choices.misfire:
        case MisfirePolicy.SKIP:
            return f"missed: {_seconds(age)} late"
        case MisfirePolicy.ONCE:
            return "missed: a later tick stands for it" if backlog.due else ""
        case MisfirePolicy.ALL:
            too_many = backlog.missed >= choices.catch_up_most
            return f"missed: more than {choices.catch_up_most} were" if too_many else ""
        case MisfirePolicy.WINDOW:
            window = choices.catch_up_window
            too_old = window is not None and age > window
            return f"missed: {_seconds(age)} late, more than the window" if too_old else ""


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.1f} s"

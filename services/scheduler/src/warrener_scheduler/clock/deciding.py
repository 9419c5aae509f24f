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
from warrener_scheduler.clock.arriving import arrive
from warrener_scheduler.clock.outcome import Outcome
from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow

PORTION = 1000
"""Nominal times that are decided at once at most: a schedule that was not looked at for a year is caught up
with in several transactions, and the others have their turn between."""
LEAD = timedelta(milliseconds=50)
"""So long before it is due a tick is decided and kept: all that is left to do then is to ask for its job."""
LONGEST_UNHEARD = timedelta(days=1)
"""So far back ticks are accounted for that were due between a schedule.put and the day it was heard: its time
may be years old, and each tick since then would be a row."""
_LOOK_AGAIN = timedelta(seconds=1)
_NOTHING = timedelta(0)


def advance(due: DueSchedule, now: datetime, zone_version: str) -> Advance:
    """Decide what is due by `now`, or the next tick if it is due within its lead; and when to look next."""
    row = due.row
    if isinstance(row.asked.rule, TriggerRule):
        return arrive(due, now, zone_version)
    most = PORTION + row.asked.choices.catch_up_most
    ready, following = _ready(row, _nominal_times(row, zone_version, now), _until(row, now), most + 1)
    outcome = Outcome(due, now)
    outcome.release_waiting()
    decided = ready[:PORTION]
    on_time = 0 < len(ready) <= most and now - due_at(row.asked, ready[-1]) <= row.asked.choices.grace
    for place, nominal_at in enumerate(decided):
        if outcome.used_up:
            break
        behind = len(ready) - 1 - place
        _decide(outcome, nominal_at, _Behind(behind, behind - on_time))
    last_at = decided[-1] if decided else row.last_at
    next_at = None if outcome.used_up else next(iter(ready[PORTION:]), following)
    wake_at = _wake_at(row.asked, next_at, now, waiting=outcome.waiting > 0)
    return Advance(outcome.row(zone_version, last_at, next_at, wake_at), tuple(outcome.ticks))


def first_time(row: ScheduleRow, now: datetime) -> ScheduleRow:
    """A schedule as it is put: its first tick is the first one since then, or within the last day."""
    if isinstance(row.asked.rule, TriggerRule):
        return replace(row, wake_at=row.put_at)  # for what the rule before it has left
    next_at = next(nominal_times(row.asked, row.put_at, _before_first(row, now)), None)
    return replace(row, next_at=next_at, wake_at=_wake_at(row.asked, next_at, row.put_at, waiting=False))


def _lead(asked: SchedulePutData) -> timedelta:
    """Nothing where the decision hangs on whether the last job is over when the tick is due."""
    return LEAD if asked.choices.overlap is OverlapPolicy.ALLOW else _NOTHING


def _until(row: ScheduleRow, now: datetime) -> datetime:
    """What is due by then is decided. While anything is due already, nothing is decided ahead: a tick is not
    missed before the next one is due indeed."""
    if row.next_at is None:
        return now
    return max(now, min(due_at(row.asked, row.next_at), now + _lead(row.asked)))


def _before_first(row: ScheduleRow, now: datetime) -> datetime:
    """The last moment at which it cannot tick yet. Of a single tick its whole past counts: it is one row.
    What is planned already is not put off: it may have been due while no scheduler ran."""
    if isinstance(row.asked.rule, OnceRule):
        return row.put_at - INSTANT
    return max(row.put_at, min(now, row.next_at or now) - LONGEST_UNHEARD) - INSTANT


def _nominal_times(row: ScheduleRow, zone_version: str, now: datetime) -> chain[datetime]:
    """From the next one on. What another time zone database has planned is planned anew."""
    if row.next_at is not None and row.zone_version == zone_version:
        return chain((row.next_at,), nominal_times(row.asked, row.put_at, row.next_at))
    if row.next_at is None:
        return chain(())
    if row.last_at is None:
        return chain(nominal_times(row.asked, row.put_at, _before_first(row, now)))
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
    asked: SchedulePutData, next_at: datetime | None, now: datetime, *, waiting: bool
) -> datetime | None:
    """When somebody must look at it next. While a tick waits, soon: nobody tells us of the end of a job."""
    ahead = None if next_at is None else due_at(asked, next_at) - _lead(asked)
    if not waiting:
        return ahead
    return min(ahead or now + _LOOK_AGAIN, now + _LOOK_AGAIN)


class _Behind(NamedTuple):
    """How many later ticks are due already, and how many of them were missed."""

    due: int
    missed: int


def _decide(outcome: Outcome, nominal_at: datetime, behind: _Behind) -> None:
    choices = outcome.choices
    late = outcome.now - due_at(outcome.asked, nominal_at)
    if outcome.paused:
        outcome.skip_paused(nominal_at)
    elif not behind.due and late <= choices.grace:
        outcome.run(nominal_at, TickStatus.FIRED)
    elif reason := _dropped(outcome, nominal_at, behind):
        fate = TickStatus.COALESCED if choices.misfire is MisfirePolicy.ONCE else TickStatus.SKIPPED
        outcome.leave(nominal_at, fate, reason)
    else:
        outcome.run(nominal_at, TickStatus.CAUGHT_UP, f"missed: {_seconds(late)} late")


def _dropped(outcome: Outcome, nominal_at: datetime, behind: _Behind) -> str:
    """Why a tick that was missed asks for no job; empty where it does."""
    choices, age = outcome.choices, outcome.now - nominal_at
    match choices.misfire:
        case MisfirePolicy.SKIP:
            return f"missed: {_seconds(age)} late"
        case MisfirePolicy.ONCE:
            return "missed: a later tick stands for it" if behind.due else ""
        case MisfirePolicy.ALL:
            too_many = behind.missed >= choices.catch_up_most
            return f"missed: more than {choices.catch_up_most} were" if too_many else ""
        case MisfirePolicy.WINDOW:
            window = choices.catch_up_window
            too_old = window is not None and age > window
            return f"missed: {_seconds(age)} late, more than the window" if too_old else ""


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.1f} s"

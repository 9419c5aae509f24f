"""The rules by which a schedule is overdue, over, watched, or waits for events. Pure."""

from datetime import datetime, timedelta

from warrener_contracts.triggers import TriggerRule
from warrener_store.schedules.rows import ScheduleRow, WatchRow

SLACK = timedelta(seconds=20)
"""Added to a schedule's grace if its owner has set no limit."""


def overdue_since(row: ScheduleRow, now: datetime) -> datetime | None:
    """The latest moment at which its next tick should have been decided, if that has passed. None while it is
    paused."""
    choices = row.definition.choices
    tick_at = row.next_at if row.next_at is None else row.next_at + (choices.jitter or timedelta(0))
    due = min((moment for moment in (row.wake_at, tick_at) if moment is not None), default=None)
    if due is None or row.wake_at is None or row.paused:
        return None
    latest = due + (choices.overdue_after or choices.grace + SLACK)
    return latest if latest < now else None


def is_over(row: ScheduleRow, now: datetime) -> bool:
    """True if no tick is to come and none waits. A schedule that waits for events has no next time."""
    if row.waiting:
        return False
    if not isinstance(row.definition.rule, TriggerRule):
        return row.next_at is None
    most, end = row.definition.choices.max_runs, row.definition.choices.end
    return (most is not None and row.runs >= most) or (end is not None and end < now)


def expectation_of(row: ScheduleRow) -> WatchRow | None:
    """The watch of a schedule whose owner expects something of its jobs, from its put on; else None."""
    choices = row.definition.choices
    if not choices.pause_after_failures and not choices.expect_success_within:
        return None
    return WatchRow(
        name=row.name,
        pause_after=choices.pause_after_failures,
        success_within=choices.expect_success_within,
        since=row.put_at,
        check_at=row.put_at,
    )


def is_triggered(row: ScheduleRow) -> bool:
    """True if the schedule waits for events in place of times. The statement `waiting_schedules` agrees."""
    return isinstance(row.definition.rule, TriggerRule)

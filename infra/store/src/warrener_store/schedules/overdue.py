"""Whether a schedule should have ticked by now. Pure: the supervisor and the command say the same."""

from datetime import datetime, timedelta

from warrener_store.schedules.rows import ScheduleRow

SLACK = timedelta(seconds=20)
"""Added to a schedule's grace, where its owner has not chosen."""


def overdue_since(row: ScheduleRow, now: datetime) -> datetime | None:
    """When its next tick should have been decided at the latest, if that is over. None while it is paused."""
    choices = row.asked.choices
    tick_at = row.next_at if row.next_at is None else row.next_at + (choices.jitter or timedelta(0))
    due = min((moment for moment in (row.wake_at, tick_at) if moment is not None), default=None)
    if due is None or row.wake_at is None or row.paused:
        return None
    latest = due + (choices.overdue_after or choices.grace + SLACK)
    return latest if latest < now else None

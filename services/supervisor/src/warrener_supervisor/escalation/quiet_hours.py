"""Quiet hours: when one may not be disturbed, and until when. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from warrener_supervisor.escalation.model import WEEK, QuietPeriod

_DAY = timedelta(days=1)
_LONGEST = 32  # periods one behind the other; quiet hours that never end would be none


def quiet_hours_end(periods: Iterable[QuietPeriod], now: datetime) -> datetime | None:
    """When the quiet that holds at `now` is over; None where none does, or where it would never end."""
    hours = list(periods)
    until = now
    for _ in range(_LONGEST):
        end = max((end for period in hours if (end := _end(period, until))), default=None)
        if end is None:
            return None if until == now else until
        until = end
    return None


def _end(period: QuietPeriod, now: datetime) -> datetime | None:
    """When `period` ends, if it holds at `now`: it may have begun today or yesterday."""
    today = now.astimezone(period.zone).date()
    for day in (today, today - _DAY):
        if WEEK[day.weekday()] not in period.days:
            continue
        begin = datetime.combine(day, period.begin, period.zone).astimezone(UTC)
        past_midnight = period.end <= period.begin
        last = day + _DAY if past_midnight else day
        end = datetime.combine(last, period.end, period.zone).astimezone(UTC)
        if begin <= now < end:
            return end
    return None

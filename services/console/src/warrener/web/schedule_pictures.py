"""The pictures of a schedule: strips, heat map and trend of its runs, and the calendar of its next weeks.
Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from warrener.operations.schedules import ListedSchedule, ListedTick
from warrener.web.charts.heatmap import count_ticks, draw_heatmap
from warrener.web.charts.picture import Picture
from warrener.web.charts.strip import draw_mini_strip, draw_strip
from warrener.web.charts.time_frame import TimeBucket
from warrener.web.charts.trend import draw_trend
from warrener.web.tick_calendar import UpcomingTicks
from warrener_contracts.state_machine import JobState

_HEAT_DAYS = 14
_STRIP = 30
_FAILED = frozenset({JobState.DEAD, JobState.EXPIRED})
_BUCKETS = 24
_BUCKET_SIZES = tuple(
    timedelta(minutes=minutes) for minutes in (1, 5, 15, 30, 60, 180, 360, 720, 1440, 4320, 10080, 43200)
)
_WEEK = 7
_CALENDAR_LEVELS = 3  # of the heat map's colours: those that a number is read on


class CalendarDay(NamedTuple):
    """A day of a calendar. `ticks`: None if they are unknown, because the day is over or too far away."""

    day: date
    ticks: int | None
    level: int  # strength of its colour, from 0 to 3
    is_today: bool


def small_strip(one: ListedSchedule, zone: ZoneInfo) -> Picture | None:
    """The last runs of a schedule for a line of a list."""
    title, name = f"Last runs of {one.name}", f"strip-{one.name}"
    return draw_mini_strip(one.ticks[::-1], title=title, name=name, zone=zone) if one.ticks else None


def strip(name: str, history: Sequence[ListedTick], zone: ZoneInfo) -> Picture | None:
    """The last runs of a schedule, each a link to its job."""
    runs = history[:_STRIP][::-1]
    title = f"Last {len(runs)} runs of {name}"
    return draw_strip(runs, title=title, zone=zone) if runs else None


def heatmap(history: Sequence[ListedTick], zone: ZoneInfo, now: datetime) -> Picture:
    """The ticks of the last two weeks, as far as the history reaches."""
    today = now.astimezone(zone).date()
    first = max(history[-1].nominal_at.astimezone(zone).date(), today - timedelta(days=_HEAT_DAYS - 1))
    days = [today - timedelta(days=back) for back in range((today - first).days + 1)]
    cells = count_ticks(((run.nominal_at, run.state in _FAILED) for run in history), zone)
    return draw_heatmap(cells, days, title="Ticks by day and hour")


def trend(history: Sequence[ListedTick], zone: ZoneInfo) -> Picture | None:
    """Durations and successes of the history; None for less than two buckets of it."""
    over = [run for run in history if run.state is not None and run.state.terminal]
    buckets = _buckets(over) if over else []
    title = f"Durations and successes of the last {len(over):,} runs"
    return draw_trend(buckets, title=title, zone=zone) if len(buckets) > 1 else None


def _buckets(runs: Sequence[ListedTick]) -> list[TimeBucket]:
    first, last = runs[-1].nominal_at, runs[0].nominal_at
    size = next((each for each in _BUCKET_SIZES if (last - first) / each <= _BUCKETS), _BUCKET_SIZES[-1])
    epoch = datetime(1970, 1, 5, tzinfo=UTC)  # a Monday
    grouped: dict[int, list[ListedTick]] = {}
    for run in runs:
        grouped.setdefault((run.nominal_at - epoch) // size, []).append(run)
    numbers = range(min(grouped), max(grouped) + 1)
    return [_bucket(epoch + number * size, grouped.get(number, [])) for number in numbers]


def _bucket(start: datetime, runs: Sequence[ListedTick]) -> TimeBucket:
    lengths = sorted(run.duration for run in runs if run.duration is not None)
    return TimeBucket(
        start=start,
        succeeded=sum(run.state is JobState.SUCCEEDED for run in runs),
        failed=sum(run.state in _FAILED for run in runs),
        p50=lengths[len(lengths) // 2] if lengths else None,
        p95=lengths[min(int(len(lengths) * 0.95), len(lengths) - 1)] if lengths else None,
    )


def calendar_weeks(found: UpcomingTicks, zone: str, now: datetime) -> list[list[CalendarDay]]:
    """The next five weeks from Monday to Sunday, in the zone of the schedule."""
    if not found.days:
        return []
    place = ZoneInfo(zone)
    today = now.astimezone(place).date()
    last = (found.until or now).astimezone(place).date() - timedelta(days=found.is_cut)
    monday = today - timedelta(days=today.weekday())
    weeks = [[monday + timedelta(days=_WEEK * week + day) for day in range(_WEEK)] for week in range(5)]
    return [[_calendar_day(day, today, last, found.days) for day in week] for week in weeks]


def _calendar_day(day: date, today: date, last: date, known: Mapping[date, int]) -> CalendarDay:
    ticks = known.get(day, 0) if today <= day <= last else None
    strength = -(-(ticks or 0) * _CALENDAR_LEVELS // max(known.values()))
    return CalendarDay(day, ticks, strength, day == today)

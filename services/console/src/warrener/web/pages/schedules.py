"""Pages of schedules: the list, one schedule with pictures of its ticks, and its backfill."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import AwareDatetime, BaseModel, BeforeValidator

from warrener.errors import CommandError
from warrener.operations import schedules
from warrener.operations.backfills import read_span
from warrener.operations.system import explain_schedule_row
from warrener.render.schedules import TICK_TONES
from warrener.schedules.backfill import BackfillTickStatus, parse_rate
from warrener.selection import find_schedule
from warrener.web.charts.over_time import TimeBucket, draw_trend
from warrener.web.charts.picture import Picture
from warrener.web.charts.small import count_ticks, draw_heatmap
from warrener.web.charts.strip import draw_mini_strip, draw_strip
from warrener.web.page import PageRequest, View, page
from warrener.web.tick_calendar import UpcomingTicks
from warrener_contracts.state_machine import JobState

_TICKS_PAGE = 25
_MAX_HISTORY = 500  # ticks that the pictures of one schedule are made of
_MAX_BACKFILL = 5000  # nominal times of a span that a page computes; the command takes more
_BACKFILL_SHOWN = 200
_HEAT_DAYS = 14
_STRIP = 30
_FAILED = frozenset({JobState.DEAD, JobState.EXPIRED})
_BUCKETS = 24
_BUCKET_SIZES = tuple(
    timedelta(minutes=minutes) for minutes in (1, 5, 15, 30, 60, 180, 360, 720, 1440, 4320, 10080, 43200)
)
_CALENDAR_LEVELS = 3  # of the heat map's colours: those that a number is read on


@page("/schedules", topics=("schedules",))
async def show_schedules(request: PageRequest) -> View:
    """Show schedules by name, each with its last runs."""
    query = request.read(schedules.SchedulesQuery)
    listed = await schedules.list_schedules(request.console, query)
    lines: list[tuple[Any, Picture | None, timedelta | None]] = []
    for one in listed.schedules:
        words = {"title": f"Last runs of {one.name}", "name": f"strip-{one.name}"}
        picture = draw_mini_strip(one.ticks[::-1], **words, zone=request.zone) if one.ticks else None
        lines.append((one, picture, _median(tick.duration for tick in one.ticks)))
    context = {
        "lines": lines,
        "next": listed.next,
        "state": query.state,
        "tones": schedules.SCHEDULES.tones,
        "is_filtered": bool(query.q or query.job_type or query.owner or query.state),
    }
    return View("Schedules", context)


def _read_moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # pydantic would also take a number, as a Unix time
        raise ValueError(f"expected a time such as 2026-11-23T09:00:00+00:00, got {text!r:.40}") from None


class HistoryQuery(BaseModel):
    """The page of a history: the ticks before this moment."""

    before: Annotated[AwareDatetime | None, BeforeValidator(_read_moment)] = None


@page("/schedules/{name}", topics=("schedule:{name}",))
async def show_schedule(request: PageRequest) -> View:
    """Show one schedule: its next ticks, its last runs, and the history of its ticks."""
    name, console, zone = request.path["name"], request.console, request.zone
    row = await find_schedule(console.store, name)
    found = await schedules.read_schedule(console, name)
    upcoming = await console.calendar.upcoming(row.definition, row.put_at, request.now)
    history = (await schedules.list_ticks(console, name, limit=_MAX_HISTORY)).ticks
    before = request.read(HistoryQuery).before
    runs = history[:_STRIP][::-1]
    context = {
        "one": found,
        "upcoming": upcoming,
        "tones": schedules.SCHEDULES.tones,
        "tick_tones": TICK_TONES,
        "ticks": await schedules.list_ticks(console, name, before=before, limit=_TICKS_PAGE),
        "is_first": before is None,
        "typical": _median(tick.duration for tick in found.ticks),
        "lateness": _median(tick.late for tick in found.ticks if tick.job_id is not None),
        "explanation": await explain_schedule_row(console, row),
        "strip": draw_strip(runs, title=f"Last {len(runs)} runs of {name}", zone=zone) if runs else None,
        "heatmap": _heatmap(history, zone, request.now) if history else None,
        "trend": _trend(history, zone),
        "history": len(history),
        "weeks": _calendar_weeks(upcoming, found.timezone, request.now),
        "choices": row.definition.choices.model_dump(mode="json", exclude_defaults=True),
        "policy": row.definition.policy and row.definition.policy.model_dump(mode="json", exclude_none=True),
    }
    return View(name, context)


def _median(lengths: Iterable[timedelta | None]) -> timedelta | None:
    seconds = [one.total_seconds() for one in lengths if one is not None]
    return timedelta(seconds=median(seconds)) if seconds else None


@page("/schedules/{name}/backfill", topics=("schedule:{name}",), refresh=3.0)
async def show_schedule_backfill(request: PageRequest) -> View:
    """Show the form of a backfill, the ticks of its span, and how far it is."""
    name, console, query = request.path["name"], request.console, request.query
    await find_schedule(console.store, name)
    begin, end, rate = query.get("begin"), query.get("end", ""), query.get("rate", "10/s")
    context: dict[str, Any] = {"name": name, "trouble": "", "span": None, "rate": rate}
    if begin:
        try:
            parse_rate(rate)
            span = await read_span(console, name, begin, end, max_ticks=_MAX_BACKFILL)
        except CommandError as error:
            context["trouble"] = str(error)
        else:
            counts = {status: span.count(status) for status in BackfillTickStatus}
            context |= {"span": span, "shown": span.ticks[:_BACKFILL_SHOWN], "counts": counts}
            context |= {"done": counts[BackfillTickStatus.HAS_JOB], "total": len(span.ticks)}
    return View(f"Backfill {name}", context)


# -- pictures ------------------------------------------------------------------------------------------------


def _heatmap(history: Sequence[schedules.ListedTick], zone: ZoneInfo, now: datetime) -> Picture:
    """The ticks of the last two weeks, as far as the history reaches."""
    today = now.astimezone(zone).date()
    first = max(history[-1].nominal_at.astimezone(zone).date(), today - timedelta(days=_HEAT_DAYS - 1))
    days = [today - timedelta(days=back) for back in range((today - first).days + 1)]
    cells = count_ticks(((run.nominal_at, run.state in _FAILED) for run in history), zone)
    return draw_heatmap(cells, days, title="Ticks by day and hour")


def _trend(history: Sequence[schedules.ListedTick], zone: ZoneInfo) -> Picture | None:
    """Durations and successes of the history; None for less than two buckets of it."""
    over = [run for run in history if run.state is not None and run.state.terminal]
    if not over:
        return None
    length = over[0].nominal_at - over[-1].nominal_at
    size = next((each for each in _BUCKET_SIZES if length / each <= _BUCKETS), _BUCKET_SIZES[-1])
    epoch = datetime(1970, 1, 5, tzinfo=UTC)  # a Monday
    grouped: dict[int, list[schedules.ListedTick]] = {}
    for run in over:
        grouped.setdefault((run.nominal_at - epoch) // size, []).append(run)
    numbers = range(min(grouped), max(grouped) + 1)
    buckets = [_bucket(epoch + number * size, grouped.get(number, [])) for number in numbers]
    title = f"Durations and successes of the last {len(over):,} runs"
    return draw_trend(buckets, title=title, zone=zone) if len(buckets) > 1 else None


def _bucket(start: datetime, runs: Sequence[schedules.ListedTick]) -> TimeBucket:
    lengths = sorted(run.duration for run in runs if run.duration is not None)
    return TimeBucket(
        start=start,
        succeeded=sum(run.state is JobState.SUCCEEDED for run in runs),
        failed=sum(run.state in _FAILED for run in runs),
        p50=lengths[len(lengths) // 2] if lengths else None,
        p95=lengths[min(int(len(lengths) * 0.95), len(lengths) - 1)] if lengths else None,
    )


class CalendarDay(NamedTuple):
    """A day of a calendar. `ticks`: None if they are unknown, because the day is over or too far away."""

    day: date
    ticks: int | None
    level: int  # strength of its colour, from 0 to 3
    is_today: bool


def _calendar_weeks(found: UpcomingTicks, zone: str, now: datetime) -> list[list[CalendarDay]]:
    """The next five weeks from Monday to Sunday, in the zone of the schedule."""
    if not found.days:
        return []
    place, most = ZoneInfo(zone), max(found.days.values())
    today = now.astimezone(place).date()
    last = (found.until or now).astimezone(place).date() - timedelta(days=found.is_cut)
    monday = today - timedelta(days=today.weekday())
    days: list[CalendarDay] = []
    for day in (monday + timedelta(days=number) for number in range(35)):
        ticks = found.days.get(day, 0) if today <= day <= last else None
        days.append(CalendarDay(day, ticks, -(-(ticks or 0) * _CALENDAR_LEVELS // most), day == today))
    return [days[start : start + 7] for start in range(0, 35, 7)]

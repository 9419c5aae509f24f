"""The pages of schedules: the list, and one schedule with its ticks."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from statistics import median

from warrener.errors import CommandError, ExitCode
from warrener.operations.schedules import SCHEDULES, SchedulesQuery, list_schedules, list_ticks, read_schedule
from warrener.operations.system import explain_schedule_row
from warrener.selection import find_schedule
from warrener.web.page import PageRequest, View, page
from warrener.web.schedule_pictures import calendar_weeks, heatmap, small_strip, strip, trend
from warrener_contracts.events import TickStatus

TICK_TONES = {
    TickStatus.FIRED: "good",
    TickStatus.CAUGHT_UP: "good",
    TickStatus.TRIGGERED: "live",
    TickStatus.WAITING: "live",
    TickStatus.COALESCED: "soft",
    TickStatus.SKIPPED: "warning",
}
_TICKS_PAGE = 25
_MAX_HISTORY = 500  # ticks that the pictures of one schedule are made of


@page("/schedules", topics=("schedules",))
async def show_schedules(request: PageRequest) -> View:
    """Show schedules by name, each with its last runs."""
    query = request.read(SchedulesQuery)
    listed = await list_schedules(request.console, query)
    context = {
        "lines": [
            (one, small_strip(one, request.zone), _median(tick.duration for tick in one.ticks))
            for one in listed.schedules
        ],
        "next": listed.next,
        "state": query.state,
        "tones": SCHEDULES.tones,
        "is_filtered": bool(query.q or query.job_type or query.owner or query.state),
    }
    return View("Schedules", context)


def _median(lengths: Iterable[timedelta | None]) -> timedelta | None:
    seconds = [one.total_seconds() for one in lengths if one is not None]
    return timedelta(seconds=median(seconds)) if seconds else None


def _parse_moment(text: str) -> datetime:
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment
    problem = f"before: expected a time such as 2026-11-23T09:00:00+00:00, got {text!r:.80}"
    raise CommandError(problem, code=ExitCode.USAGE)


@page("/schedules/{name}", topics=("schedule:{name}",))
async def show_schedule(request: PageRequest) -> View:
    """Show one schedule: its next ticks, its last runs, and the history of its ticks."""
    name, console = request.path["name"], request.console
    row = await find_schedule(console.store, name)
    found = await read_schedule(console, name)
    upcoming = await console.calendar.upcoming(row.definition, row.put_at, request.now)
    history = (await list_ticks(console, name, limit=_MAX_HISTORY)).ticks
    before = _parse_moment(request.query["before"]) if request.query.get("before") else None
    ticks = await list_ticks(console, name, before=before, limit=_TICKS_PAGE)
    context = {
        "one": found,
        "upcoming": upcoming,
        "tones": SCHEDULES.tones,
        "tick_tones": TICK_TONES,
        "ticks": ticks,
        "is_first": before is None,
        "typical": _median(tick.duration for tick in found.ticks),
        "lateness": _median(tick.late for tick in found.ticks if tick.job_id is not None),
        "explanation": await explain_schedule_row(console, row),
        "strip": strip(name, history, request.zone),
        "heatmap": heatmap(history, request.zone, request.now) if history else None,
        "trend": trend(history, request.zone),
        "history": len(history),
        "weeks": calendar_weeks(upcoming, found.timezone, request.now),
        "choices": row.definition.choices.model_dump(mode="json", exclude_defaults=True),
        "policy": row.definition.policy and row.definition.policy.model_dump(mode="json", exclude_none=True),
    }
    return View(name, context)

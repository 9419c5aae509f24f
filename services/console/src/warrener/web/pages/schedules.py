"""The pages of schedules: the list, and one schedule with its ticks; and the routes of ticks."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from statistics import median
from typing import Annotated

from fastapi import APIRouter, Query

from warrener.operations.schedules import (
    SCHEDULES,
    SchedulesQuery,
    TicksPage,
    list_schedules,
    list_ticks,
    read_schedule,
)
from warrener.operations.system import explain_schedule_row
from warrener.schedules.calendar import UpcomingTick, preview_ticks
from warrener.selection import find_schedule
from warrener.web.api import ConsoleOfApp
from warrener.web.page import BadQuery, Page, PageRequest, View
from warrener.web.queries import parse_moment, read_query
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


async def show_schedules(request: PageRequest) -> View:
    """Show schedules by name, each with its last runs."""
    query = read_query(SchedulesQuery, request.query)
    page = await list_schedules(request.console, query)
    fields = [
        {"name": "q", "label": "Schedule", "value": query.q, "hint": "a part of its name"},
        {"name": "job_type", "label": "Job type", "value": query.job_type},
        {"name": "owner", "label": "Owner", "value": query.owner},
    ]
    if query.state:
        fields.append({"name": "state", "value": query.state, "type": "hidden"})
    context = {
        "lines": [
            (one, small_strip(one, request.zone), _median(tick.duration for tick in one.ticks))
            for one in page.schedules
        ],
        "next": page.next,
        "query": request.query,
        "state": query.state,
        "fields": fields,
        "tones": SCHEDULES.tones,
        "is_filtered": bool(query.q or query.job_type or query.owner or query.state),
    }
    return View(template="pages/schedules.html", title="Schedules", context=context)


def _median(lengths: Iterable[timedelta | None]) -> timedelta | None:
    seconds = [one.total_seconds() for one in lengths if one is not None]
    return timedelta(seconds=median(seconds)) if seconds else None


async def show_schedule(request: PageRequest) -> View:
    """Show one schedule: its next ticks, its last runs, and the history of its ticks."""
    name, console = request.path["name"], request.console
    row = await find_schedule(console.store, name)
    found = await read_schedule(console, name)
    upcoming = await console.calendar.upcoming(row.definition, row.put_at, request.now)
    history = (await list_ticks(console, name, limit=_MAX_HISTORY)).ticks
    before = parse_moment(request.query["before"], "before") if request.query.get("before") else None
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
    return View(template="pages/schedule.html", title=name, context=context)


PAGES = (
    Page(name="schedules", path="/schedules", view=show_schedules, topics=("schedules",)),
    Page(
        name="schedule",
        path="/schedules/{name}",
        section="schedules",
        view=show_schedule,
        topics=("schedule:{name}",),
    ),
)

router = APIRouter(tags=["schedules"])


@router.get("/schedules/{name}/ticks")
async def get_ticks(
    console: ConsoleOfApp,
    name: str,
    before: datetime | None = None,
    limit: Annotated[int, Query(ge=1, le=_MAX_HISTORY)] = 50,
) -> TicksPage:
    """The history of a schedule's ticks, the newest first."""
    if before is not None and before.tzinfo is None:
        raise BadQuery(f"before: expected a time with its offset, got {before.isoformat()}")
    return await list_ticks(console, name, before=before, limit=limit)


@router.get("/schedules/{name}/preview")
async def get_preview(
    console: ConsoleOfApp, name: str, limit: Annotated[int, Query(ge=1, le=1000)] = 10
) -> list[UpcomingTick]:
    """The next ticks of a schedule, with the clock changes between them."""
    row = await find_schedule(console.store, name)
    return await asyncio.to_thread(preview_ticks, row.definition, limit, row.put_at)

"""The pages of schedules: the list, and one schedule with the history of its ticks."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from statistics import median

from warrener.web.api.schedules import (
    ListedRun,
    SchedulesQuery,
    ScheduleState,
    find_schedule_row,
    list_schedules,
    list_ticks,
    read_history,
    read_schedule,
)
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import form_field, parse_moment, read_query
from warrener.web.schedule_pictures import calendar_weeks, heatmap, small_strip, strip, trend
from warrener.web.system import explain_schedule_row
from warrener_contracts.events import TickStatus

TONES: dict[ScheduleState, str] = {"active": "good", "paused": "warning", "overdue": "error", "over": "soft"}
TICK_TONES = {
    TickStatus.FIRED: "good",
    TickStatus.CAUGHT_UP: "good",
    TickStatus.TRIGGERED: "live",
    TickStatus.WAITING: "live",
    TickStatus.COALESCED: "soft",
    TickStatus.SKIPPED: "warning",
}
_TICKS_PAGE = 25


async def show_schedules(request: PageRequest) -> View:
    """Show schedules by name, each with its last runs."""
    query = read_query(SchedulesQuery, request.query)
    request.console.calendar.warm()
    page = await list_schedules(request.console, query)
    fields = [
        form_field("q", "Schedule", query.q, hint="a part of its name"),
        form_field("job_type", "Job type", query.job_type),
        form_field("owner", "Owner", query.owner),
    ]
    if query.state:
        fields.append(form_field("state", "", query.state, kind="hidden"))
    context = {
        "lines": [(one, small_strip(one, request.zone), _typical(one.last_runs)) for one in page.schedules],
        "next": page.next,
        "query": request.query,
        "state": query.state,
        "fields": fields,
        "tones": TONES,
        "is_filtered": bool(query.q or query.job_type or query.owner or query.state),
    }
    return View(template="pages/schedules.html", title="Schedules", context=context)


def _typical(runs: Sequence[ListedRun]) -> timedelta | None:
    """The median duration of these runs."""
    lengths = [run.duration.total_seconds() for run in runs if run.duration is not None]
    return timedelta(seconds=median(lengths)) if lengths else None


async def show_schedule(request: PageRequest) -> View:
    """Show one schedule: its next ticks, its last runs, and the history of its ticks."""
    name, console = request.path["name"], request.console
    row = await find_schedule_row(console, name)
    found = await read_schedule(console, name)
    history = await read_history(console, name)
    before = parse_moment(request.query["before"], "before") if request.query.get("before") else None
    ticks = await list_ticks(console, name, before=before, limit=_TICKS_PAGE)
    context = {
        "schedule": found,
        "one": found.summary,
        "tones": TONES,
        "tick_tones": TICK_TONES,
        "ticks": ticks,
        "is_first": before is None,
        "typical": _typical(found.summary.last_runs),
        "lateness": _lateness(found.summary.last_runs),
        "explanation": await explain_schedule_row(console, row),
        "strip": strip(name, history, request.zone),
        "heatmap": heatmap(history, request.zone, request.now) if history else None,
        "trend": trend(history, request.zone),
        "history": len(history),
        "weeks": calendar_weeks(found, request.now),
        "choices": row.definition.choices.model_dump(mode="json", exclude_defaults=True),
    }
    return View(template="pages/schedule.html", title=name, context=context)


def _lateness(runs: Sequence[ListedRun]) -> timedelta | None:
    lengths = [run.late.total_seconds() for run in runs if run.job_id is not None]
    return timedelta(seconds=median(lengths)) if lengths else None


def schedule_topics(request: PageRequest) -> Collection[str]:
    """One schedule, or all of them."""
    name = request.path.get("name")
    return ("schedules",) if name is None else (f"schedule:{name}",)


PAGES = (
    Page(
        name="schedules", path="/schedules", section="schedules", view=show_schedules, topics=schedule_topics
    ),
    Page(
        name="schedule",
        path="/schedules/{name}",
        section="schedules",
        view=show_schedule,
        topics=schedule_topics,
    ),
)

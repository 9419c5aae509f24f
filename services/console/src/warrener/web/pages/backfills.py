"""Backfills: the form, the ticks of a span, how far they are, and the action that requests their jobs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from warrener.errors import CommandError
from warrener.schedules.backfill import (
    BackfillSpan,
    BackfillTickStatus,
    backfill_data,
    find_span,
    parse_rate,
    parse_time,
)
from warrener.web.access.roles import Role
from warrener.web.action import Action, ActionBody, ActionRequest, Outcome
from warrener.web.api.schedules import find_schedule_row
from warrener.web.commands import REPLY_TIMEOUT
from warrener.web.console import Console
from warrener.web.page import Page, PageRequest, View
from warrener.web.pages.schedules import schedule_topics
from warrener_contracts.events import ScheduleBackfillRequested
from warrener_runtime.clock import SystemEntropy
from warrener_store.schedules.rows import ScheduleRow

MAX_TICKS = 5000
"""Nominal times of one backfill; the command takes more."""
_TICKS_SHOWN = 200


async def show_backfill(request: PageRequest) -> View:
    """Show the form of a backfill, the ticks of its span, and how far it is."""
    name, console, query = request.path["name"], request.console, request.query
    row = await find_schedule_row(console, name)
    context: dict[str, Any] = {
        "name": name,
        "query": query,
        "trouble": "",
        "span": None,
        "rate": query.get("rate", "10/s"),
    }
    if query.get("begin"):
        try:
            parse_rate(context["rate"])
            span = await read_span(console, row, query["begin"], query.get("end", ""))
            context |= _span_context(span)
        except CommandError as error:
            context["trouble"] = str(error)
    return View(template="pages/backfill.html", title=f"Backfill {name}", context=context)


async def read_span(console: Console, row: ScheduleRow, begin: str, end: str) -> BackfillSpan:
    """Find the ticks of a backfill. Raises CommandError."""
    now = await console.now()
    wanted = parse_time(begin, "from"), parse_time(end, "to") if end else now

    async def times(first: datetime, last: datetime, most: int) -> list[datetime]:
        return await console.calendar.process.times_between(row.definition, row.put_at, first, last, most)

    return await find_span(console.store, row, wanted, times, now=now, max_ticks=MAX_TICKS)


def _span_context(span: BackfillSpan) -> dict[str, Any]:
    counts = {status: span.count(status) for status in BackfillTickStatus}
    return {
        "span": span,
        "shown": span.ticks[:_TICKS_SHOWN],
        "counts": counts,
        "done": counts[BackfillTickStatus.HAS_JOB],
        "total": len(span.ticks),
    }


class BackfillBody(ActionBody):
    """The span of a backfill (UTC without an offset; `end` empty: until now), and the rate of its jobs."""

    begin: str
    end: str = ""
    rate: str = "10/s"
    dry_run: bool = False


async def backfill(request: ActionRequest) -> Outcome:
    """Request the jobs of past ticks that have none."""
    body, console, name = request.body, request.console, request.path["name"]
    assert isinstance(body, BackfillBody)
    rate = parse_rate(body.rate)
    span = await read_span(console, await find_schedule_row(console, name), body.begin, body.end)
    jobs = len(span.requested)
    details: dict[str, Any] = {"jobs": jobs, "ticks": len(span.ticks), "dry_run": body.dry_run}
    if not jobs:
        return Outcome(
            accepted=False, sentence="refused: each past tick of this span has its job", details=details
        )
    if body.dry_run:
        details["nominal_times"] = [moment.isoformat() for moment in span.requested]
        return Outcome(accepted=True, sentence=f"{jobs:,} jobs would be requested", details=details)
    client = await console.client()
    event = ScheduleBackfillRequested(
        id=str(SystemEntropy().new_id()),
        source=client.source,
        time=await console.now(),
        subject=name,
        data=backfill_data(span, rate, body.reason or "requested"),
    )
    await client.send(event, reply_timeout=REPLY_TIMEOUT)
    end = body.end or span.ticks[-1].nominal_at.isoformat()
    query = urlencode({"begin": body.begin, "end": end, "rate": body.rate})
    return Outcome(
        accepted=True,
        sentence=f"a scheduler requests {jobs:,} jobs, {body.rate}",
        details=details,
        location=f"/schedules/{name}/backfill?{query}",
    )


def _name(path: Mapping[str, str], _: ActionBody) -> str:
    return path["name"]


PAGES = (
    Page(
        name="schedule-backfill",
        path="/schedules/{name}/backfill",
        section="schedules",
        view=show_backfill,
        topics=schedule_topics,
        refresh=3.0,
    ),
)
ACTIONS = (
    Action(
        name="schedule.backfill",
        path="/schedules/{name}/backfill",
        role=Role.OPERATOR,
        body=BackfillBody,
        subject=_name,
        perform=backfill,
    ),
)

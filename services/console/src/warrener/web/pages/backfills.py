"""The page of a backfill: its form, the ticks of a span, and how far they are."""

from typing import Any

from warrener.errors import CommandError
from warrener.operations.backfills import read_span
from warrener.schedules.backfill import BackfillTickStatus, parse_rate
from warrener.selection import find_schedule
from warrener.web.page import PageRequest, View, page

MAX_TICKS = 5000
"""Nominal times of a span that a page shows; the command takes more."""
_TICKS_SHOWN = 200


@page("/schedules/{name}/backfill", topics=("schedule:{name}",), refresh=3.0)
async def show_schedule_backfill(request: PageRequest) -> View:
    """Show the form of a backfill, the ticks of its span, and how far it is."""
    name, console, query = request.path["name"], request.console, request.query
    await find_schedule(console.store, name)
    context: dict[str, Any] = {"name": name, "trouble": "", "span": None, "rate": query.get("rate", "10/s")}
    if query.get("begin"):
        try:
            parse_rate(context["rate"])
            span = await read_span(console, name, query["begin"], query.get("end", ""), max_ticks=MAX_TICKS)
        except CommandError as error:
            context["trouble"] = str(error)
        else:
            counts = {status: span.count(status) for status in BackfillTickStatus}
            context |= {
                "span": span,
                "shown": span.ticks[:_TICKS_SHOWN],
                "counts": counts,
                "done": counts[BackfillTickStatus.HAS_JOB],
                "total": len(span.ticks),
            }
    return View(f"Backfill {name}", context)

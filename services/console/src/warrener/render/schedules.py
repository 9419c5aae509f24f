"""Schedules, their ledger and their next ticks as tables."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from rich.table import Table
from rich.text import Text

from warrener.render.rules import rule_text
from warrener.render.tables import table
from warrener.render.times import ago, clock, span
from warrener.scheduling.backfill_span import BackfillSpan, BackfillTickStatus
from warrener_contracts.events import TickStatus
from warrener_store.schedules.rows import ScheduleRow, TickRow
from warrener_store.schedules.rules import is_over, overdue_since

_STYLES = {
    TickStatus.FIRED: "good",
    TickStatus.CAUGHT_UP: "good",
    TickStatus.TRIGGERED: "good",
    TickStatus.WAITING: "live",
    TickStatus.COALESCED: "soft",
    TickStatus.SKIPPED: "odd",
}


def schedules_table(rows: Iterable[ScheduleRow], now: datetime) -> Table:
    """Schedules, one a line."""
    made = table("schedule", "type", "rule", "zone", "state", "next", "jobs", right=("jobs",))
    for row in rows:
        state = _state(row, now)
        made.add_row(
            row.name,
            row.asked.job_type,
            Text(rule_text(row.asked.rule)),
            row.asked.timezone,
            Text(state, style="good" if state == "active" else "odd"),
            "" if row.next_at is None else ago(row.next_at, now),
            str(row.runs),
        )
    return made


def _state(row: ScheduleRow, now: datetime) -> str:
    if row.paused:
        return f"paused: {row.paused_why}" if row.paused_why else "paused"
    if is_over(row, now):
        return "over"
    since = overdue_since(row, now)
    return "active" if since is None else f"overdue for {span(now - since, units=1)}"


def ticks_table(ticks: Iterable[TickRow], now: datetime) -> Table:
    """The ledger of a schedule, one tick a line."""
    made = table("nominal time", "became", "late", "job", "why", right=("late",))
    for tick in ticks:
        late = tick.fired_at or tick.decided_at
        made.add_row(
            f"{clock(tick.nominal_at)} ({ago(tick.nominal_at, now)})",
            Text(tick.fate.value, style=_STYLES[tick.fate]),
            span(max(late - tick.due_at, timedelta(0)), units=1),  # a tick is decided a little ahead
            "" if tick.job_id is None else str(tick.job_id),
            Text(tick.reason, style="soft"),
        )
    return made


def preview_table(ticks: Iterable[Mapping[str, Any]]) -> Table:
    """The next ticks by the clock of the schedule's zone, with the clock changes between them."""
    made = table("tick", "utc", "clock change")
    for tick in ticks:
        made.add_row(
            tick.get("wall", ""), tick["at"], Text(tick.get("clock_change", ""), style="odd", no_wrap=True)
        )
    return made


def span_table(span: BackfillSpan) -> Table:
    """The ticks of a span and how they stand, one a line."""
    made = table("nominal time", "stands", "job")
    for tick in span.ticks:
        style = "live" if tick.standing is BackfillTickStatus.REQUESTED else "soft"
        job = "" if tick.job_id is None else str(tick.job_id)
        made.add_row(
            f"{tick.nominal_at:%Y-%m-%d %H:%M:%S}Z",
            Text(tick.standing.value.replace("_", " "), style=style),
            job,
        )
    return made


def warning_text(warning: Mapping[str, Any]) -> Text:
    """One warning: of which schedule, of what kind, and a sentence."""
    return Text.assemble((warning["schedule"], "odd"), f" {warning['kind']}: {warning['text']}")

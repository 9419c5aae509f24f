"""Everything about one job on one page."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener.render.flight import flight_text
from warrener.render.next_step import next_step
from warrener.render.policy import job_retries_text
from warrener.render.states import end_text, id_text, state_text
from warrener.render.tables import table
from warrener.render.times import ago, clock, span
from warrener_contracts.events import ErrorInfo
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.jobs.views import CheckpointRow

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)")


def job_page(
    row: JobRow,
    attempts: Sequence[AttemptRow],
    follow_ups: Sequence[JobRow],
    now: datetime,
    *,
    open_breakers: OpenBreakers = NO_OPEN_BREAKERS,
    checkpoint: CheckpointRow | None = None,
    seen: datetime | None = None,
    refusing_since: datetime | None = None,
) -> Group:
    """Where it is, what went wrong, what happens next; `seen` is the last heartbeat of its agent."""
    parts: list[RenderableType] = [_head(row), _facts(row, now)]
    if attempts:
        parts += [_title("attempts"), _attempts(attempts)]
    if checkpoint and row.state != "succeeded":
        parts += [_title("checkpoint"), _indented(Text(_checkpoint(checkpoint, now)))]
    if row.error and row.state != "succeeded":
        parts += [_title("error"), _error(row.error)]
    if row.state != "succeeded":
        parts += _last_seen(row.error, attempts)
    if follow_ups:
        parts += [_title("follow-ups"), _follow_ups(follow_ups)]
    if row.result is not None:
        parts += [_title("result"), _indented(Text(_json(row.result)))]
    what_next = next_step(row, now, open_breakers, seen=seen, refusing_since=refusing_since)
    parts += [_title("next"), _indented(Text(what_next))]
    return Group(*parts)


def _head(row: JobRow) -> Text:
    return Text.assemble(state_text(row.state), "  ", (row.job_type, "key"), "  ", id_text(row.job_id))


def _facts(row: JobRow, now: datetime) -> Padding:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="soft")
    grid.add_column()
    for name, value in _fact_pairs(row, now):
        grid.add_row(name, value)
    return Padding(grid, (1, 0, 0, 2), expand=False)


def _fact_pairs(row: JobRow, now: datetime) -> Iterable[tuple[str, RenderableType]]:
    yield "arguments", Text(_json(row.arguments))
    yield "asked", f"{clock(row.requested_at)}, {ago(row.requested_at, now)}, by {row.source}"
    if row.started_at:
        yield "started", f"{clock(row.started_at)}, attempt {row.attempt}"
    if row.finished_at:
        yield (
            "finished",
            f"{clock(row.finished_at)}, {span(row.finished_at - row.requested_at)} after it was asked for",
        )
    yield (
        "attempts",
        f"{row.attempt} so far, {row.failures} failed, {row.losses} lost; at most {row.policy.max_attempts}",
    )
    yield "retries", f"after {job_retries_text(row)}"
    yield "queue", f"{row.queue}, {row.guarantee.value}"
    if row.owner and not row.state.terminal:
        yield "agent", row.owner
    if row.progress is not None:
        yield "progress", f"{row.progress:.0%} {row.progress_note or ''}"
    if row.cancel_reason:
        yield "cancel", row.cancel_reason
    if row.idempotency_key:
        yield "key", row.idempotency_key
    if row.parent_id:
        yield "parent", id_text(row.parent_id)
    if row.traceparent:
        yield "trace", row.traceparent.split("-")[1]


def _attempts(attempts: Sequence[AttemptRow]) -> Padding:
    made = table("#", "end", "began", "ran", "agent", "verdict", right=("#", "ran"))
    for one in attempts:
        made.add_row(
            str(one.attempt),
            end_text(one.end),
            clock(one.started_at) if one.started_at else "",
            span(one.finished_at - one.started_at) if one.started_at else "",
            one.agent_id or "",
            localize_times(one.verdict),
        )
    return _indented(made)


def _checkpoint(saved: CheckpointRow, now: datetime) -> str:
    when = f"{clock(saved.saved_at)}, {ago(saved.saved_at, now)}"
    return f"{_json(saved.state)}\nnumber {saved.number}, saved by attempt {saved.attempt} at {when}"


def _error(error: ErrorInfo) -> Padding:
    text = Text.assemble((f"{error.type}: ", "bad"), error.message)
    if error.stack:
        text.append("\n" + error.stack.rstrip().removesuffix(text.plain).rstrip(), style="soft")
    return _indented(text)


def _last_seen(error: ErrorInfo | None, attempts: Sequence[AttemptRow]) -> Iterable[RenderableType]:
    """The newest flight record: of an attempt that is over, or at least of the job's last error."""
    records = [(one.attempt, one.error.flight_record) for one in attempts if one.error]
    number, record = next(
        ((number, record) for number, record in reversed(records) if record),
        (None, error and error.flight_record),
    )
    if record:
        yield _title("last seen" if number is None else f"last seen, attempt {number}")
        yield _indented(flight_text(record))


def localize_times(verdict: str) -> str:
    """The verdict, with its times as the clock here shows them."""
    return _MOMENT.sub(lambda found: clock(datetime.fromisoformat(found.group())), verdict)


def _follow_ups(rows: Sequence[JobRow]) -> Padding:
    made = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        made.add_row(id_text(row.job_id), row.job_type, state_text(row.state))
    return _indented(made)


def _title(name: str) -> Text:
    return Text(f"\n{name}", style="soft")


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 2), expand=False)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=None if len(str(value)) < 90 else 2)

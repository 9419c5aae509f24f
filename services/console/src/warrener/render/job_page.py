"""One job on one page: facts, attempts, errors, last flight record, and what happens next. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import ByteSize
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener.render.incidents import describe_hold
from warrener.render.jobs import SILENT_AFTER, id_text, job_retries_text, outcome_text, state_text
from warrener.render.screen import facts_grid, table
from warrener.render.times import ago, clock, span
from warrener_contracts.events import ErrorInfo, FlightRecord
from warrener_contracts.state_machine import JobState
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.jobs.views import CheckpointRow

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)")


def job_page(
    row: JobRow,
    attempts: Sequence[AttemptRow],
    child_jobs: Sequence[JobRow],
    now: datetime,
    *,
    open_breakers: OpenBreakers = NO_OPEN_BREAKERS,
    checkpoint: CheckpointRow | None = None,
    seen: datetime | None = None,
    refusing_since: datetime | None = None,
) -> Group:
    """Render the page; `seen` is the last heartbeat of the job's agent, for the rest see `next_step`."""
    parts: list[RenderableType] = [_head(row), _facts(row, now)]
    if attempts:
        parts += [_title("attempts"), _attempts(attempts)]
    if checkpoint and row.state != "succeeded":
        parts += [_title("checkpoint"), _indented(Text(_checkpoint(checkpoint, now)))]
    if row.error and row.state != "succeeded":
        parts += [_title("error"), _error(row.error)]
    if row.state != "succeeded":
        parts += _last_seen(row.error, attempts)
    if child_jobs:
        parts += [_title("child jobs"), _child_jobs(child_jobs)]
    if row.result is not None:
        parts += [_title("result"), _indented(Text(_json(row.result)))]
    what_next = next_step(row, now, open_breakers, seen=seen, refusing_since=refusing_since)
    parts += [_title("next"), _indented(Text(what_next))]
    return Group(*parts)


def _head(row: JobRow) -> Text:
    return Text.assemble(state_text(row.state), "  ", (row.job_type, "key"), "  ", id_text(row.job_id))


def _facts(row: JobRow, now: datetime) -> Padding:
    grid = facts_grid()
    for name, value in _fact_pairs(row, now):
        grid.add_row(name, value)
    return Padding(grid, (1, 0, 0, 2), expand=False)


def _fact_pairs(row: JobRow, now: datetime) -> Iterable[tuple[str, RenderableType]]:
    yield "arguments", Text(_json(row.arguments))
    yield "requested", f"{clock(row.requested_at)}, {ago(row.requested_at, now)}, by {row.source}"
    if row.started_at:
        yield "started", f"{clock(row.started_at)}, attempt {row.attempt}"
    if row.finished_at:
        yield (
            "finished",
            f"{clock(row.finished_at)}, {span(row.finished_at - row.requested_at)} after the request",
        )
    yield (
        "attempts",
        f"{row.attempt} so far, {row.failures} failed, {row.losses} lost; at most {row.policy.max_attempts}",
    )
    yield "retries", f"after {job_retries_text(row)}"
    yield "queue", f"{row.queue}, {row.guarantee.value}"
    if row.agent_id and not row.state.terminal:
        yield "agent", row.agent_id
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
            outcome_text(one.outcome),
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
    text = Text.assemble((f"{error.type}: ", "error"), error.message)
    if error.stack:
        text.append("\n" + error.stack.rstrip().removesuffix(text.plain).rstrip(), style="soft")
    return _indented(text)


def _last_seen(error: ErrorInfo | None, attempts: Sequence[AttemptRow]) -> Iterable[RenderableType]:
    """The newest flight record of an attempt, else that of the job's last error."""
    records = [(one.attempt, one.error.flight_record) for one in attempts if one.error]
    number, record = next(
        ((number, record) for number, record in reversed(records) if record),
        (None, error and error.flight_record),
    )
    if record:
        yield _title("last seen" if number is None else f"last seen, attempt {number}")
        yield _indented(flight_text(record))


def localize_times(verdict: str) -> str:
    """Replace the times in a verdict by local ones."""
    return _MOMENT.sub(lambda found: clock(datetime.fromisoformat(found.group())), verdict)


def _child_jobs(rows: Sequence[JobRow]) -> Padding:
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


# -- next step ---------------------------------------------------------------------------------------------


def next_step(
    row: JobRow,
    now: datetime,
    open_breakers: OpenBreakers = NO_OPEN_BREAKERS,
    *,
    seen: datetime | None = None,
    refusing_since: datetime | None = None,
) -> str:
    """Describe the next step of the job in a sentence.

    `seen` is the last heartbeat of the job's agent, `refusing_since` the time since when the job's queue
    refuses messages.
    """
    deadline = (
        f"; it expires {ago(row.deadline_at, now)}" if row.deadline_at and not row.state.terminal else ""
    )
    breaker = open_breakers.find_blocking(row.job_type, row.policy)
    if breaker is not None and row.state in (JobState.WAITING, JobState.RETRYING):
        return describe_hold(breaker, now) + deadline
    return _next_of_state(row, now, seen, refusing_since) + deadline


def _next_of_state(row: JobRow, now: datetime, seen: datetime | None, refusing_since: datetime | None) -> str:
    if row.state.terminal:
        return _next_of_ended(row)
    if row.cancel_reason and row.state is JobState.RUNNING:
        return f"its agent was requested to stop it ({row.cancel_reason}); it ends at the agent's report"
    left = row.policy.max_attempts - row.failures
    if row.state is JobState.WAITING:
        return (
            f"the scheduler dispatches it {ago(row.due_at, now)}" if row.due_at else "the scheduler plans it"
        )
    if row.state is JobState.QUEUED:
        return _queued(row, now, refusing_since)
    if row.state is JobState.RETRYING:
        return _retrying(row, now)
    return _running(row, now, left, seen)


def _retrying(row: JobRow, now: datetime) -> str:
    when = f"{ago(row.due_at, now)} ({clock(row.due_at)})" if row.due_at else "soon"
    limit = row.policy.max_attempts
    if row.attempt - 1 > row.failures:  # uncharged attempts: their number alone would mislead
        return f"attempt {row.attempt} {when}; {row.failures} of at most {limit} have failed"
    return f"attempt {row.attempt} of at most {limit} {when}"


def _next_of_ended(row: JobRow) -> str:
    if row.state is JobState.DEAD:
        return "nothing: no further attempt is made; it is stored among the dead letters"
    return "nothing: it has ended"


def _queued(row: JobRow, now: datetime, refusing_since: datetime | None) -> str:
    if refusing_since is not None:
        return (
            f"queue {row.queue} refuses messages since {clock(refusing_since)}, {ago(refusing_since, now)}:"
            f" it is full or without a quorum; attempt {row.attempt} is published once the queue accepts it"
        )
    next_agent = f"the next free agent of queue {row.queue} takes attempt {row.attempt}"
    if row.dispatched_at is None:
        return f"{next_agent}; its queue has not accepted it yet: a supervisor publishes it again"
    late = row.dispatched_at + row.policy.start_timeout
    if late > now:
        return next_agent
    return f"{next_agent}; it waits longer than its start_timeout since {clock(late)}"


def _running(row: JobRow, now: datetime, left: int, seen: datetime | None) -> str:
    limit = f"it may run until {clock(row.started_at + row.policy.timeout)}" if row.started_at else "it runs"
    agent = f", its agent was seen {ago(seen, now)}" if seen else ""
    if seen and now - seen > SILENT_AFTER:
        agent += ": the supervisor retries the job on another"
    more = "then retried" if left > 1 else "then it is dead"
    return f"{limit}{agent}; if it fails: {more}"


# -- flight records ----------------------------------------------------------------------------------------


def flight_text(record: FlightRecord) -> Text:
    """Usage, progress, stacks and last log lines of an attempt before it was stopped."""
    lines = [", ".join(_used(record)), _progress(record)]
    text = Text("\n".join(line for line in lines if line))
    for name, content in (("stacks", record.stacks), ("last words", record.log)):
        if content:
            text.append(f"\n{name}\n" if text.plain else f"{name}\n", style="soft")
            text.append(content.rstrip())
    return text


def _progress(record: FlightRecord) -> str:
    if record.progress is None:
        return ""
    return f"progress {record.progress:.0%} {record.progress_note or ''}".rstrip()


def _used(record: FlightRecord) -> Iterator[str]:
    if record.cpu_seconds is not None:
        yield f"{record.cpu_seconds:.1f} s of a processor"
    if record.memory_bytes is not None:
        yield f"{ByteSize(record.memory_bytes).human_readable()} of memory"
    for number, one, many in (
        (record.processes, "process", "processes"),
        (record.threads, "thread", "threads"),
        (record.open_files, "open file", "open files"),
    ):
        if number is not None:
            yield f"{number} {one if number == 1 else many}"

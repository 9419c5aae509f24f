"""One job on one page: facts, attempts, errors, last flight record, and what happens next. Pure."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import ByteSize
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener.explanations.explanation import UNIQUE
from warrener.explanations.facts import attempts_text
from warrener.render.explanation import cause_text
from warrener.render.jobs import id_text, job_retries_text, outcome_text, state_text
from warrener.render.screen import facts_grid, table
from warrener.render.times import MOMENT, ago, clock, span
from warrener.render.waterfall import MAX_CHILD_JOBS
from warrener_contracts.events import ErrorInfo, FlightRecord
from warrener_store.jobs.rows import AttemptRow

if TYPE_CHECKING:
    from warrener.operations.job import JobDetails

_MAX_EARLIER_ERRORS = 5
_MAX_CHILDREN = 10
_SHOWN = ("type", "message", "stack")  # of an error


def job_page(job: "JobDetails", now: datetime) -> Group:
    """Render the page of a job, with its dead letter, and what happens next."""
    facts = Padding(facts_grid(_facts(job, now)), (1, 0, 0, 2), expand=False)
    head = Text.assemble(state_text(job.state), "  ", (job.job_type, "key"), "  ", id_text(job.job_id))
    parts: list[RenderableType] = [head, facts]
    if job.attempts:
        parts += [_title("attempts"), _attempts(job.attempts)]
    if job.checkpoint:
        saved = job.checkpoint
        when = f"{clock(saved.saved_at)}, {ago(saved.saved_at, now)}"
        text = f"{_json(saved.state)}\nnumber {saved.number}, saved by attempt {saved.attempt} at {when}"
        parts += [_title("published" if job.suspensions else "checkpoint"), _indented(Text(text))]
    if job.error:
        parts += [_title("error"), _error(job.error)]
    parts += _earlier_errors(job)
    if job.state != "succeeded":
        parts += _last_seen(job.error, job.attempts)
    if job.child_jobs:
        children = Table.grid(padding=(0, 2, 0, 0))
        for child in job.child_jobs[:_MAX_CHILDREN]:
            children.add_row(id_text(child.job_id), child.job_type, state_text(child.state))
        parts += [_title("child jobs"), _indented(children)]
        if (more := len(job.child_jobs) - _MAX_CHILDREN) > 0:
            counted = f"{'at least ' * (len(job.child_jobs) >= MAX_CHILD_JOBS)}{more} more: --tree shows them"
            parts.append(_indented(Text(f"and {counted}", style="soft")))
    if job.dead_letter or job.in_place_of:
        parts += [_title("dead letter"), _indented(facts_grid(_dead_letter(job)))]
    if job.result is not None:
        parts += [_title("result"), _indented(Text(_json(job.result)))]
    parts += [_title("next"), _indented(cause_text(job.explanation, now))]
    return Group(*parts)


def _facts(row: "JobDetails", now: datetime) -> Iterable[tuple[str, RenderableType]]:
    yield "arguments", Text(_json(row.arguments))
    if row.generation:
        yield "generation", Text(f"since turn {row.generation}, with {_json(row.continued)}")
    yield "requested", f"{clock(row.requested_at)}, {ago(row.requested_at, now)}, by {row.source}"
    if row.started_at:
        yield "started", f"{clock(row.started_at)}, attempt {row.attempt}"
    if row.finished_at:
        after = f"{span(row.finished_at - row.requested_at)} after the request"
        yield "finished", f"{clock(row.finished_at)}, {after}"
    limit = row.policy.max_attempts
    yield (
        "attempts",
        attempts_text(row.state, row.attempt, row.failures, row.losses, limit, turns=bool(row.suspensions)),
    )
    yield "retries", f"after {job_retries_text(row.policy, row.accepted_at)}"
    yield "queue", f"{row.queue}, {row.guarantee.value}"
    further: dict[str, RenderableType | None] = {
        "agent": None if row.state.terminal else row.agent_id,
        "progress": None if row.progress is None else f"{row.progress:.0%} {row.progress_note or ''}",
        "cancel": row.cancel_reason,
        "end": None if row.ending_reason == row.cancel_reason else row.ending_reason,
        "unique": next(
            (one.removeprefix(UNIQUE) for one in row.explanation.notes if one.startswith(UNIQUE)), None
        ),
        "key": row.idempotency_key,
        "parent": None if row.parent_id is None else id_text(row.parent_id),
        "trace": row.trace_id,
    }
    yield from ((name, value) for name, value in further.items() if value)


def _attempts(attempts: Sequence[AttemptRow]) -> Padding:
    made = table("#", "end", "began", "ran", "agent", "verdict", right=("#", "ran"))
    for one in attempts:
        began = clock(one.started_at) if one.started_at else ""
        ran = span(one.finished_at - one.started_at) if one.started_at else ""
        end = outcome_text(one.outcome)
        verdict = MOMENT.sub(lambda found: clock(datetime.fromisoformat(found.group())), one.verdict)
        made.add_row(str(one.attempt), end, began, ran, one.agent_id or "", verdict)
    return _indented(made)


def _error(error: ErrorInfo) -> Padding:
    text = Text.assemble((f"{error.type}: ", "error"), error.message)
    if error.stack:
        text.append("\n" + error.stack.rstrip().removesuffix(text.plain).rstrip(), style="soft")
    return _indented(text)


def _earlier_errors(row: "JobDetails") -> Iterable[RenderableType]:
    """The errors of the attempts before the last error, the newest first; a repeated one once."""
    failed = [one for one in row.attempts if one.error is not None]
    if failed and failed[-1].error == row.error:
        failed.pop()
    shown = row.error
    for one in reversed(failed[-_MAX_EARLIER_ERRORS:]):
        if one.error is None:
            continue
        same = shown is not None and all(getattr(one.error, name) == getattr(shown, name) for name in _SHOWN)
        yield _title(f"error of attempt {one.attempt}")
        yield _indented(Text("the same as above", style="soft")) if same else _error(one.error)
        shown = one.error
    if len(failed) > _MAX_EARLIER_ERRORS:
        yield _title(f"{len(failed) - _MAX_EARLIER_ERRORS} more before: --json has all")


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


def _dead_letter(job: "JobDetails") -> Iterable[tuple[str, RenderableType]]:
    if (own := job.dead_letter) is not None:
        yield "cause", own.fingerprint or "none: it died before causes were recorded"
        yield "reason", own.reason
        yield "state", own.state.value
        further = {"note": own.note, "redriven as": own.redriven_as, "redrive": own.redrive_id}
        yield from ((name, str(value)) for name, value in further.items() if value)
    if job.in_place_of:
        yield "in place of", str(job.in_place_of)


def _title(name: str) -> Text:
    return Text(f"\n{name}", style="soft")


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 2), expand=False)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=None if len(str(value)) < 90 else 2)


# -- flight records ----------------------------------------------------------------------------------------


def flight_text(record: FlightRecord) -> Text:
    """Usage, progress, stacks and last log lines of an attempt before it was stopped."""
    lines = [", ".join(_used(record))]
    if record.progress is not None:
        lines.append(f"progress {record.progress:.0%} {record.progress_note or ''}".rstrip())
    text = Text("\n".join(filter(None, lines)))
    for name, content in (("stacks", record.stacks), ("last words", record.log)):
        if content:
            text.append(f"\n{name}\n" if text.plain else f"{name}\n", style="soft")
            text.append(content.rstrip())
    return text


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

"""Page of one job: what it does and waits for, its waterfall, attempts, errors, logs and relatives."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from warrener.explanations.explanation import Explanation, StepStatus
from warrener.render.dead_letters import next_action
from warrener.render.jobs import job_retries_text
from warrener.render.times import MOMENT, time_in_zone
from warrener.render.tones import STATE_SIGNS, Tone
from warrener.render.waterfall import WaterfallFacts, lay_out
from warrener.web.api.job import (
    JobDocument,
    LogDocument,
    explain_job,
    find_row,
    read_job,
    read_log,
    read_timeline,
)
from warrener.web.charts.picture import for_all_widths
from warrener.web.charts.svg import Markup
from warrener.web.charts.waterfall import WaterfallLinks, draw_waterfall
from warrener.web.page import BadQuery, Page, PageMoved, PageRequest, View
from warrener.web.pages.dead_letters import dead_letter_badge
from warrener_contracts.events import ErrorInfo, FlightRecord
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow
from warrener_store.logs.rows import MAX_LOGGED_ATTEMPTS

_MAX_SHOWN = 16_000  # characters of a document or a stack; the API has all of it
_MAX_ATTEMPTS = 20
_MAX_LINES = 300
_MAX_LINE = 1_000  # characters
_LIVE_REFRESH = 2.0  # seconds, while an attempt runs: its progress, its lines, the waterfall's now
_WAITING_REFRESH = 5.0
_STEP_LOOKS: dict[StepStatus, tuple[str, Tone]] = {
    StepStatus.PASSED: ("✓", Tone.GOOD),
    StepStatus.BLOCKED: ("✗", Tone.ERROR),
    StepStatus.WAITING: ("…", Tone.LIVE),
    StepStatus.UNKNOWN: ("?", Tone.WARNING),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """A JSON value as a page shows it: whole, or its beginning."""

    value: Any
    text: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    """An attempt as a page shows it. `same_as`: the attempt with the same error, which shows its stack."""

    number: int
    outcome: AttemptOutcome | JobState
    agent_id: str | None
    dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    ran: timedelta | None
    verdict: str
    error: ErrorInfo | None = None
    message: str = ""
    stack: str = ""
    same_as: int | None = None
    has_log: bool = False
    record: FlightRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """A log line as a page shows it: its time of day, its level and its text."""

    omitted: int
    at: str
    level: str
    logger: str
    text: str
    cut: int


def _topics(request: PageRequest) -> Collection[str]:
    return (f"job:{request.path['job_id']}",)


async def _view(request: PageRequest) -> View:
    text = request.path["job_id"]
    row = await find_row(request.console, text)
    if str(row.job_id) != text:
        raise PageMoved(f"/jobs/{row.job_id}")
    console = request.console
    document = await read_job(console, row)
    facts = await read_timeline(console, row, request.zone)
    explanation = await explain_job(console, row)
    log = await read_log(console, row, _attempt_of(request, "log"))
    over = row.state.terminal
    context: dict[str, Any] = {
        "document": document,
        "job": document.job,
        "over": over,
        "took": (row.finished_at or request.now) - row.requested_at,
        "waterfall": _waterfall(request, facts),
        "explanation": explanation,
        "explained": row.state is not JobState.SUCCEEDED,
        "explained_tone": _explained_tone(row, explanation),
        "steps": [(*_STEP_LOOKS[step.status], step) for step in explanation.steps],
        "retries": job_retries_text(row),
        "attempts": _attempts(request, document),
        "hidden_attempts": max(len(document.attempts) - _MAX_ATTEMPTS, 0),
        "arguments": show_document(document.job.arguments),
        "result": None if row.result is None else show_document(document.job.result),
        "checkpoint": show_document(document.checkpoint.state) if document.checkpoint else None,
        "next_action": next_action(document.dead_letter) if document.dead_letter else "",
        "log": log,
        "lines": _lines(request, log),
        "log_attempts": _logged_attempts(row),
        "can_cancel": not over,
        "can_redrive": document.dead_letter is not None and document.dead_letter.state.unresolved,
        "short_id": str(row.job_id)[-8:],
        "dead_letter_badge": dead_letter_badge,
    }
    return View(
        template="pages/job.html",
        title=f"{row.job_type} {str(row.job_id)[-8:]} is {row.state.value}",
        context=context,
        refresh=_refresh(document),
    )


def _refresh(document: JobDocument) -> float | None:
    """Seconds after which the page is rendered again, though no event was about its job."""
    row, new = document.job, document.redriven_as
    is_redriven = document.dead_letter is not None and document.redrive is not None
    if row.state is JobState.RUNNING or (is_redriven and (new is None or not new.state.terminal)):
        return _LIVE_REFRESH
    return None if row.state.terminal else _WAITING_REFRESH


def _explained_tone(row: JobRow, explanation: Explanation) -> Tone:
    """The colour of the explanation: that of the state, or of a trouble that needs somebody."""
    if row.state.terminal:
        return STATE_SIGNS[row.state][1]
    return Tone.ERROR if explanation.needs_action else Tone.LIVE


# -- waterfall ---------------------------------------------------------------------------------------------


def _waterfall(request: PageRequest, facts: WaterfallFacts) -> Markup:
    shows_all = request.query.get("attempts") == "all"
    is_open = request.query.get("children") != "closed"
    here = f"/jobs/{facts.row.job_id}"
    links = WaterfallLinks(
        attempt=lambda number: f"#attempt-{number}",
        child_job=_job_address,
        toggle_child_jobs=f"{here}?children={'closed' if is_open else 'open'}",
        all_attempts=f"{here}?attempts=all",
    )
    laid_out = lay_out(facts, open_child_jobs=is_open, all_attempts=shows_all)
    return for_all_widths(
        draw_waterfall(laid_out, links, name="waterfall"),
        draw_waterfall(laid_out, links, name="waterfall-narrow", narrow=True),
    )


def _job_address(job_id: UUID) -> str:
    return f"/jobs/{job_id}"


# -- attempts ----------------------------------------------------------------------------------------------


def _attempts(request: PageRequest, document: JobDocument) -> list[ShownAttempt]:
    """The newest attempts first; a stack is shown once, with the newest attempt that has it."""
    shown: list[ShownAttempt] = []
    row = document.job
    if row.state is JobState.RUNNING:
        shown.append(
            ShownAttempt(
                number=row.attempt,
                outcome=row.state,
                agent_id=row.agent_id,
                dispatched_at=row.dispatched_at,
                started_at=row.started_at,
                finished_at=None,
                ran=request.now - row.started_at if row.started_at else None,
                verdict="",
                has_log=True,
            )
        )
    stacks: dict[tuple[str, str | None], int] = {}
    newest = reversed(document.attempts[-_MAX_ATTEMPTS:])
    return shown + [_attempt(request, one, stacks, row.attempt) for one in newest]


def _attempt(
    request: PageRequest, one: AttemptRow, stacks: dict[tuple[str, str | None], int], newest: int
) -> ShownAttempt:
    error = one.error
    same_as = None
    if error is not None and error.stack:
        first = stacks.setdefault((error.type, error.stack), one.attempt)
        same_as = first if first != one.attempt else None
    return ShownAttempt(
        number=one.attempt,
        outcome=one.outcome,
        agent_id=one.agent_id,
        dispatched_at=one.dispatched_at,
        started_at=one.started_at,
        finished_at=one.finished_at,
        ran=max(one.finished_at - one.started_at, timedelta(0)) if one.started_at else None,
        verdict=_localise(one.verdict, request),
        error=error,
        message=_localise(error.message, request) if error else "",
        stack=_shorten(error.stack) if error and error.stack and same_as is None else "",
        same_as=same_as,
        has_log=one.attempt > newest - MAX_LOGGED_ATTEMPTS and one.started_at is not None,
        record=error.flight_record if error else None,
    )


def _localise(text: str, request: PageRequest) -> str:
    """Replace the times in a verdict by times of day in the reader's zone."""
    return MOMENT.sub(
        lambda found: time_in_zone(datetime.fromisoformat(found.group()), request.now, request.zone), text
    )


def _shorten(text: str) -> str:
    """The end of a long text: a stack ends with its cause."""
    if len(text) <= _MAX_SHOWN:
        return text.rstrip()
    return f"… {len(text) - _MAX_SHOWN:,} characters before\n{text[-_MAX_SHOWN:].rstrip()}"


def show_document(value: Any) -> ShownDocument:
    """Show a JSON value, or the beginning of one that is too long for a page."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) <= _MAX_SHOWN:
        return ShownDocument(value=value, size=len(text))
    return ShownDocument(value=None, text=f"{text[:_MAX_SHOWN]}…", size=len(text))


# -- logs --------------------------------------------------------------------------------------------------


def _attempt_of(request: PageRequest, name: str) -> int | None:
    text = request.query.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise BadQuery(f"{name}: expected the number of an attempt, got {text!r:.40}")
    return int(text)


def _logged_attempts(row: JobRow) -> Sequence[int]:
    """The attempts whose lines may be stored, the newest first; empty for a single one."""
    newest = max(row.attempt, 1)
    return range(newest, max(newest - MAX_LOGGED_ATTEMPTS, 0), -1) if newest > 1 else ()


def _lines(request: PageRequest, log: LogDocument) -> list[ShownLine]:
    return [
        ShownLine(
            omitted=line.omitted,
            at=f"{line.entry.at.astimezone(request.zone):%H:%M:%S.%f}"[:-3],
            level=line.entry.level or "",
            logger=line.entry.logger,
            text=line.entry.text[:_MAX_LINE].rstrip(),
            cut=max(len(line.entry.text) - _MAX_LINE, 0),
        )
        for line in log.lines[-_MAX_LINES:]
    ]


PAGES = (Page(name="job", path="/jobs/{job_id}", section="jobs", view=_view, topics=_topics, refresh=15.0),)

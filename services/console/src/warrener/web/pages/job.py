"""Page of one job: what it does and waits for, its waterfall, attempts, errors, logs and relatives."""

from collections.abc import Callable, Iterable
from typing import Any

from warrener.errors import CommandError, ExitCode
from warrener.explanations.facts import attempts_text
from warrener.operations.job import JobDetails, read_details
from warrener.operations.job_logs import logged_attempts, read_log
from warrener.operations.timelines import read_timeline
from warrener.render.jobs import job_retries_text
from warrener.render.tones import STATE_SIGNS, Tone
from warrener.render.waterfall import WaterfallFacts, lay_out
from warrener.selection import find_job
from warrener.web.charts.picture import Picture
from warrener.web.charts.waterfall import WaterfallLinks, draw_waterfall
from warrener.web.page import PageMoved, PageRequest, View, page
from warrener.web.pages.dead_letters import dead_letter_badge
from warrener_contracts.events import ErrorInfo
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptRow

_MAX_ATTEMPTS = 20
_MAX_LINES = 300
_LIVE_REFRESH = 2.0  # seconds, while an attempt runs: its progress, its lines, the waterfall's now
_WAITING_REFRESH = 5.0


@page("/jobs/{job_id}", topics=("job:{job_id}",))
async def show_job(request: PageRequest) -> View:
    """Show one job."""
    console, text = request.console, request.path["job_id"]
    row = await find_job(console.store, text)
    if str(row.job_id) != text:
        raise PageMoved(f"/jobs/{row.job_id}")
    job, facts = await read_details(console, row), await read_timeline(console, row, request.zone)
    attempts = job.attempts[: -_MAX_ATTEMPTS - 1 : -1]
    trace_url = console.settings.console_trace_url
    context: dict[str, Any] = {
        "job": job,
        "over": job.state.terminal,
        "waterfall": _waterfall(request, facts),
        "explained_tone": _explained_tone(job),
        "attempts_text": attempts_text(
            job.state, job.attempt, job.failures, job.losses, job.policy.max_attempts
        ),
        "retries": job_retries_text(job.policy, job.accepted_at),
        "attempts": attempts,
        "first_of_stack": _first_of(attempts, lambda error: error.stack),
        "first_of_message": _first_of(attempts, lambda error: error.message),
        "hidden_attempts": max(len(job.attempts) - _MAX_ATTEMPTS, 0),
        "log": await read_log(console, row, _attempt_of(request, "log"), _MAX_LINES),
        "logged": logged_attempts(job.attempt),
        "can_redrive": job.dead_letter is not None and job.dead_letter.state.unresolved,
        "trace_url": trace_url.replace("{trace_id}", job.trace_id) if trace_url and job.trace_id else "",
        "dead_letter_badge": dead_letter_badge,
    }
    title = f"{job.job_type} {str(job.job_id)[-8:]} is {job.state.value}"
    return View(title, context, refresh=_refresh(job))


def _first_of(attempts: Iterable[AttemptRow], read: Callable[[ErrorInfo], str | None]) -> dict[int, int]:
    """The attempt that shows this part of the error of each: the newest one with the same."""
    first: dict[tuple[str, str | None], int] = {}
    return {
        one.attempt: first.setdefault((one.error.type, read(one.error)), one.attempt)
        for one in attempts
        if one.error is not None
    }


def _refresh(job: JobDetails) -> float | None:
    """Seconds after which the page is rendered again, though no event was about its job."""
    new, is_redriven = job.redriven_as, job.dead_letter is not None and job.redrive is not None
    if job.state is JobState.RUNNING or (is_redriven and (new is None or not new.state.terminal)):
        return _LIVE_REFRESH
    return None if job.state.terminal else _WAITING_REFRESH


def _explained_tone(job: JobDetails) -> Tone:
    """The colour of the explanation: that of the state, or of a trouble that needs somebody."""
    if job.state.terminal:
        return STATE_SIGNS[job.state][1]
    return Tone.ERROR if job.explanation.needs_action else Tone.LIVE


# -- waterfall ---------------------------------------------------------------------------------------------


def _waterfall(request: PageRequest, facts: WaterfallFacts) -> Picture:
    shows_all = request.query.get("attempts") == "all"
    is_open = request.query.get("children") != "closed"
    here = f"/jobs/{facts.row.job_id}"
    links = WaterfallLinks(
        toggle_child_jobs=f"{here}?children={'closed' if is_open else 'open'}",
        all_attempts=f"{here}?attempts=all",
    )
    laid_out = lay_out(facts, open_child_jobs=is_open, all_attempts=shows_all)
    return draw_waterfall(laid_out, links)


def _attempt_of(request: PageRequest, name: str) -> int | None:
    text = request.query.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        problem = f"{name}: expected the number of an attempt, got {text!r:.40}"
        raise CommandError(problem, code=ExitCode.USAGE)
    return int(text)

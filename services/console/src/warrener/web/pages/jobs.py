"""Pages of jobs: the list with its filters, and one job with its waterfall, attempts, errors, logs and
relatives."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from warrener.explanations.facts import attempts_text
from warrener.operations.job import JobDetails, read_details
from warrener.operations.job_logs import logged_attempts, read_log
from warrener.operations.jobs import MAX_BULK, NOT_OVER, JobsQuery, list_jobs
from warrener.operations.noun import ListQuery
from warrener.operations.timelines import read_timeline
from warrener.operations.workflows import CallState
from warrener.render.jobs import job_retries_text
from warrener.render.tones import STATE_SIGNS, Tone
from warrener.render.waterfall import lay_out
from warrener.selection import find_job
from warrener.web.charts.graph import draw_graph
from warrener.web.charts.waterfall import WaterfallLinks, draw_waterfall
from warrener.web.charts.workflow_graph import read_graph
from warrener.web.console import Console
from warrener.web.page import PageMoved, PageRequest, View, page
from warrener_contracts.events import ErrorInfo
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.jobs.rows import AttemptRow

_EXAMINED_DEATHS = 60
_FILTERS = [name for name in JobsQuery.model_fields if name not in {*ListQuery.model_fields, "state"}]
_MORE_FILTERS = {"source", "schedule", "parent", "top", "argument", "trace", "until"}
_MAX_ATTEMPTS = 20
_MAX_CALLS = 100
_MAX_FAILED = 20  # of the calls that one node of the graph stands for
_MAX_LINES = 300
_LIVE_REFRESH = 2.0  # seconds, while an attempt runs: its progress, its lines, the waterfall's now
_WAITING_REFRESH = 5.0


def _topics(request: PageRequest) -> Collection[str]:
    query = request.read(JobsQuery)
    if query.after:
        return ()
    if query.type:
        return (f"type:{query.type}",)
    return (f"queue:{query.queue}",) if query.queue else ("jobs",)


@page("/jobs", topics=_topics)
async def show_jobs(request: PageRequest) -> View:
    """Show the jobs that match the filters, the newest first."""
    query = request.read(JobsQuery)
    given = {name: text.strip() for name, text in request.query.items()}
    filters = {name: given[name] for name in ("state", *_FILTERS) if given.get(name)}
    found, states = await list_jobs(request.console, query), query.state
    context: dict[str, Any] = {
        "filters": filters,
        "tabs": [
            (None, sum(found.counts.values()), not states),
            *((state, found.counts[state], state in states) for state in JobState),
        ],
        "chips": [name for name in _FILTERS if name in filters],
        "more_open": bool(filters.keys() & _MORE_FILTERS),
        "list": found,
        "is_first": not query.after,
        "suggestions": await _suggest(request.console),
        "may_cancel": any(not states or state in states for state in NOT_OVER),
        "may_redrive": not states or JobState.DEAD in states,
        "max_bulk": MAX_BULK,
        "is_filtered": bool(filters.keys() - {"state"}),
    }
    return View("Jobs", context)


async def _suggest(console: Console) -> dict[str, list[str]]:
    """Suggest values for the filters: the store's job types, queues and schedules, and errors of late."""
    counts, types = await console.store.count_jobs(), await console.store.job_types()
    newest = DeadLetterFilter(states=(), limit=_EXAMINED_DEATHS)
    deaths = await console.store.dead_letter_store.list_dead_letters(newest)
    errors = Counter(death.error.type for death in deaths if death.error is not None)
    return {
        "types": sorted({count.job_type for count in counts} | types.keys()),
        "queues": sorted({count.queue for count in counts} | {row.queue for row in types.values()}),
        "errors": [name for name, _ in errors.most_common()],
        "schedules": sorted(await console.store.schedules()),
    }


def _read_attempt_number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ValueError(f"expected the number of an attempt, got {text!r:.40}")
    return int(text)


class LogQuery(BaseModel):
    """The attempt whose log is shown."""

    log: Annotated[int | None, BeforeValidator(_read_attempt_number)] = None


@page("/jobs/{job_id}", topics=("job:{job_id}",))
async def show_job(request: PageRequest) -> View:
    console, query, text = request.console, request.query, request.path["job_id"]
    row = await find_job(console.store, text)
    here = f"/jobs/{row.job_id}"
    if str(row.job_id) != text:
        raise PageMoved(here)
    job, facts = await read_details(console, row), await read_timeline(console, row, request.zone)
    shows_children, shows_all = query.get("children") != "closed", query.get("attempts") == "all"
    toggle = f"{here}?children={'closed' if shows_children else 'open'}"
    laid_out = lay_out(facts, open_child_jobs=shows_children, all_attempts=shows_all)
    attempts = job.attempts[: -_MAX_ATTEMPTS - 1 : -1]
    trace_url = console.settings.console_trace_url
    # The colour of the explanation: that of the state, or of a trouble that needs somebody.
    tone = Tone.ERROR if job.explanation.needs_action else Tone.LIVE
    graph = read_graph(row, job.calls, facts.turns, facts.now) if job.calls else None
    failed = graph.failed if graph else []
    context: dict[str, Any] = {
        "job": job,
        "graph": draw_graph(graph) if graph else None,
        "failed": failed[:_MAX_FAILED],
        "more_failed": max(len(failed) - _MAX_FAILED, 0),
        "over": job.state.terminal,
        "held": row.is_held,
        "waterfall": draw_waterfall(laid_out, WaterfallLinks(toggle, f"{here}?attempts=all")),
        "explained_tone": STATE_SIGNS[job.state][1] if job.state.terminal else tone,
        "attempts_text": attempts_text(
            job.state,
            job.attempt,
            job.failures,
            job.losses,
            job.policy.max_attempts,
            turns=bool(job.suspensions),
        ),
        "retries": job_retries_text(job.policy, job.accepted_at),
        "attempts": attempts,
        # Open calls first: they are awaited.
        "calls": sorted(job.calls, key=lambda call: call.state is not CallState.AWAITED)[:_MAX_CALLS],
        "first_of_stack": _first_of(attempts, lambda error: error.stack),
        "first_of_message": _first_of(attempts, lambda error: error.message),
        "hidden_attempts": max(len(job.attempts) - _MAX_ATTEMPTS, 0),
        "log": await read_log(console, row, request.read(LogQuery).log, _MAX_LINES),
        "logged": logged_attempts(job.attempt),
        "can_redrive": job.dead_letter is not None and job.dead_letter.state.unresolved,
        "trace_url": trace_url.replace("{trace_id}", job.trace_id) if trace_url and job.trace_id else "",
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

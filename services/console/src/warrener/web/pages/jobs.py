"""Page of jobs: a list with filters, and the form that requests a new one."""

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from warrener.render.tones import STATE_SIGNS
from warrener.web.access.roles import Role
from warrener.web.api.job import find_row
from warrener.web.api.jobs import (
    MAX_BULK,
    JobsQuery,
    JobSummary,
    count_states,
    list_jobs,
    suggest,
)
from warrener.web.argument_fields import PREFIX, ArgumentField, fields_of
from warrener.web.page import Page, PageRequest, View
from warrener.web.pages.job_actions import NOT_OVER
from warrener_contracts.state_machine import JobState

_PATH = "/jobs"
_FILTER_NAMES = {
    "q": "id",
    "type": "type",
    "queue": "queue",
    "source": "source",
    "schedule": "schedule",
    "parent": "parent",
    "error": "error",
    "argument": "argument",
    "trace": "trace",
    "since": "since",
    "until": "until",
}


class StateTab(NamedTuple):
    """A tab of the list: a state, how many jobs there are, and the same list of that state."""

    word: str
    sign: str
    tone: str
    jobs: int
    url: str
    current: bool


class FilterChip(NamedTuple):
    """A filter that is set, and the list without it."""

    name: str
    value: str
    url: str


def jobs_url(filters: Mapping[str, str], **changes: str | None) -> str:
    """The address of a list with these filters, some of them changed; None removes one."""
    changed = {name: value for name, value in {**filters, **changes}.items() if value}
    return f"{_PATH}?{urlencode(changed)}" if changed else _PATH


def _topics(request: PageRequest) -> Collection[str]:
    query = JobsQuery.parse(request.query)
    if query.before:
        return ()
    if query.type:
        return (f"type:{query.type}",)
    return (f"queue:{query.queue}",) if query.queue else ("jobs",)


async def _view(request: PageRequest) -> View:
    console = request.console
    query = JobsQuery.parse(request.query)
    filters = query.filters
    found = await list_jobs(console, query)
    counts = (await count_states(console, query)).counts
    states = query.states
    context: dict[str, Any] = {
        "query": query,
        "filters": filters,
        "tabs": _tabs(filters, states, counts),
        "chips": [
            FilterChip(_FILTER_NAMES[name], value, jobs_url(filters, **{name: None}))
            for name, value in filters.items()
            if name in _FILTER_NAMES
        ],
        "more_open": bool(filters.keys() & {"source", "schedule", "parent", "argument", "trace", "until"}),
        "jobs": found.jobs,
        "list": found,
        "next_url": jobs_url(filters, before=str(found.before)) if found.before else None,
        "first_url": jobs_url(filters) if query.before else None,
        "suggestions": await suggest(console),
        "query_string": urlencode(filters),
        "may_cancel": any(not states or state in states for state in NOT_OVER),
        "may_redrive": not states or JobState.DEAD in states,
        "max_bulk": MAX_BULK,
        "why": _why,
        "clear_url": jobs_url({"state": query.state}) if query.state else _PATH,
        "is_filtered": bool(filters.keys() - {"state"}),
    }
    return View(template="pages/jobs.html", title="Jobs", context=context)


def _tabs(
    filters: Mapping[str, str], states: Collection[JobState], counts: Mapping[JobState, int]
) -> list[StateTab]:
    every = StateTab("all", "", "", sum(counts.values()), jobs_url(filters, state=None), not states)
    return [
        every,
        *(
            StateTab(
                state.value,
                STATE_SIGNS[state][0],
                STATE_SIGNS[state][1].value,
                counts[state],
                jobs_url(filters, state=state.value),
                state in states,
            )
            for state in JobState
        ),
    ]


def _why(job: JobSummary) -> str:
    """The reason of a job's state, in a line."""
    if job.state is JobState.CANCELLED and job.cancel_reason:
        return job.cancel_reason
    if job.error is not None and job.state is not JobState.RUNNING:
        return f"{job.error.type.rpartition('.')[-1]}: {job.error.message}"
    if job.state is JobState.RUNNING and job.progress is not None:
        return f"{job.progress:.0%} {job.progress_note or ''}".strip()
    return job.cancel_reason or ""


# -- a new job ---------------------------------------------------------------------------------------------


async def _request_view(request: PageRequest) -> View:
    console, query = request.console, request.query
    source = await find_row(console, query["from"]) if query.get("from") else None
    name = query.get("type") or (source.job_type if source else "")
    types = await console.store.job_types()
    chosen = types.get(name)
    values: dict[str, Any] = {}
    if source is not None and source.job_type == name:
        values = console.masker.value(source.arguments)
    as_json = query.get("as") == "json" or (chosen is None and bool(name))
    fields: list[ArgumentField] = [] if chosen is None else fields_of(chosen.arguments_schema, values)
    context: dict[str, Any] = {
        "types": sorted(types.values(), key=lambda row: row.name),
        "chosen": chosen,
        "name": name,
        "source": source,
        "fields": fields,
        "prefix": PREFIX,
        "as_json": as_json,
        "text": json.dumps(
            values or dict.fromkeys([one.name for one in fields]), indent=2, ensure_ascii=False
        ),
        "other_url": "?"
        + urlencode(
            {
                key: value
                for key, value in {**query, "type": name, "as": "" if as_json else "json"}.items()
                if value
            }
        ),
    }
    title = "Request a job again" if source is not None else "Request a job"
    return View(template="pages/job_request.html", title=title, context=context)


PAGES = (
    Page(name="jobs", path=_PATH, section="jobs", view=_view, topics=_topics),
    Page(
        name="job-request",
        path=f"{_PATH}/new",
        section="jobs",
        view=_request_view,
        role=Role.OPERATOR,
        refresh=None,
    ),
)

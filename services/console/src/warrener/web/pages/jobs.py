"""Page of jobs: a list with filters."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from warrener.operations.jobs import MAX_BULK, NOT_OVER, JobsQuery, list_jobs
from warrener.operations.noun import ListQuery
from warrener.render.tones import STATE_SIGNS
from warrener.web.console import Console
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import read_query
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterFilter

_PATH = "/jobs"
_EXAMINED_DEATHS = 60
_FILTERS = [name for name in JobsQuery.model_fields if name not in {*ListQuery.model_fields, "state"}]
_MORE_FILTERS = {"source", "schedule", "parent", "argument", "trace", "until"}


class StateTab(NamedTuple):
    """A tab of the list: a state, how many jobs there are, and the same list of that state."""

    word: str
    sign: str
    tone: str
    jobs: int
    url: str
    current: bool


def _url(filters: Mapping[str, str], **changes: str | None) -> str:
    """The address of a list with these filters, some of them changed; None removes one."""
    changed = {name: value for name, value in {**filters, **changes}.items() if value}
    return f"{_PATH}?{urlencode(changed)}" if changed else _PATH


def _topics(request: PageRequest) -> Collection[str]:
    query = read_query(JobsQuery, request.query)
    if query.after:
        return ()
    if query.type:
        return (f"type:{query.type}",)
    return (f"queue:{query.queue}",) if query.queue else ("jobs",)


async def _view(request: PageRequest) -> View:
    query = read_query(JobsQuery, request.query)
    given = {name: text.strip() for name, text in request.query.items()}
    filters = {name: given[name] for name in ("state", *_FILTERS) if given.get(name)}
    found, states = await list_jobs(request.console, query), query.state
    context: dict[str, Any] = {
        "filters": filters,
        "tabs": _tabs(filters, states, found.counts),
        "chips": [
            ("id" if name == "q" else name, filters[name], _url(filters, **{name: None}))
            for name in _FILTERS
            if name in filters
        ],
        "more_open": bool(filters.keys() & _MORE_FILTERS),
        "list": found,
        "next_url": _url(filters, after=found.next) if found.next else None,
        "first_url": _url(filters) if query.after else None,
        "suggestions": await _suggest(request.console),
        "query_string": urlencode(filters),
        "may_cancel": any(not states or state in states for state in NOT_OVER),
        "may_redrive": not states or JobState.DEAD in states,
        "max_bulk": MAX_BULK,
        "clear_url": _url({"state": filters.get("state", "")}),
        "is_filtered": bool(filters.keys() - {"state"}),
    }
    return View(template="pages/jobs.html", title="Jobs", context=context)


def _tabs(
    filters: Mapping[str, str], states: Collection[JobState], counts: Mapping[JobState, int]
) -> list[StateTab]:
    every = StateTab("all", "", "", sum(counts.values()), _url(filters, state=None), not states)
    of_states = [
        StateTab(one.value, *STATE_SIGNS[one], counts[one], _url(filters, state=one.value), one in states)
        for one in JobState
    ]
    return [every, *of_states]


async def _suggest(console: Console) -> dict[str, list[str]]:
    """Suggest values for the filters: the store's job types, queues and schedules, and errors of late."""
    counts, types = await console.store.count_jobs(), await console.store.job_types()
    deaths = await console.store.dead_letter_store.list_dead_letters(
        DeadLetterFilter(states=(), limit=_EXAMINED_DEATHS)
    )
    errors = Counter(death.error.type for death in deaths if death.error is not None)
    return {
        "types": sorted({count.job_type for count in counts} | types.keys()),
        "queues": sorted({count.queue for count in counts} | {row.queue for row in types.values()}),
        "errors": [name for name, _ in errors.most_common()],
        "schedules": sorted(await console.store.schedules()),
    }


PAGES = (Page(name="jobs", path=_PATH, view=_view, topics=_topics),)

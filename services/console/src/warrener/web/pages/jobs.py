"""Page of jobs: a list with filters."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from warrener.operations.jobs import MAX_BULK, NOT_OVER, JobsQuery, list_jobs
from warrener.operations.noun import ListQuery
from warrener.web.console import Console
from warrener.web.page import PageRequest, View, page
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterFilter

_EXAMINED_DEATHS = 60
_FILTERS = [name for name in JobsQuery.model_fields if name not in {*ListQuery.model_fields, "state"}]
_MORE_FILTERS = {"source", "schedule", "parent", "argument", "trace", "until"}


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

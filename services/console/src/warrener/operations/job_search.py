"""The search behind every list of jobs: state, type, parent and time go by indexes, the rest is compared."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from warrener_contracts.json_safety import is_object
from warrener_store.jobs.rows import JobFilter, JobRow

if TYPE_CHECKING:
    from warrener_store import StateStore

MAX_EXAMINED = 50_000  # jobs that one list looks at; behind them nothing is searched
_PAGE_SIZE = 500
_FIRST_STRETCH, _LONGEST_STRETCH = timedelta(seconds=10), timedelta(days=20_000)
_GROWTH = 6


@dataclass(frozen=True, slots=True)
class JobSearch:
    """The jobs to list. `which` selects by index; None of `matching`: the indexes alone select."""

    which: JobFilter
    matching: Callable[[JobRow], bool] | None = None

    def lists(self, row: JobRow) -> bool:
        """True if the row is one of them, also by what the indexes select."""
        which = self.which
        return (
            (not which.states or row.state in which.states)
            and which.job_type in (None, row.job_type)
            and which.parent_id in (None, row.parent_id)
            and (which.accepted_from is None or row.accepted_at >= which.accepted_from)
            and (which.accepted_until is None or row.accepted_at <= which.accepted_until)
            and (self.matching is None or self.matching(row))
        )


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """The rows, the newest first. `is_complete`: there are enough, or all jobs were examined.

    `before` continues the list: the last job that was examined. None: no job is behind it.
    """

    rows: list[JobRow]
    is_complete: bool = True
    before: UUID | None = None


async def find_jobs(store: "StateStore", search: JobSearch, *, max_examined: int = MAX_EXAMINED) -> FoundJobs:
    """Look at the jobs that the indexes select, the newest first, until enough match."""
    limit = search.which.limit
    if search.matching is None:
        rows = await store.list_jobs(replace(search.which, limit=limit + 1))
        return FoundJobs(rows[:limit], before=rows[limit - 1].job_id if len(rows) > limit else None)
    found: list[JobRow] = []
    examined = 0
    async for page in _pages(store, search.which, min(_PAGE_SIZE, max_examined)):
        found += filter(search.matching, page)
        examined += len(page)
        if len(found) >= limit:
            return FoundJobs(found[:limit], before=found[limit - 1].job_id)
        if examined >= max_examined:
            return FoundJobs(found, is_complete=False, before=page[-1].job_id)
    return FoundJobs(found)


async def _pages(store: "StateStore", which: JobFilter, size: int) -> AsyncIterator[Sequence[JobRow]]:
    """The jobs page by page, from one stretch of time to the one before.

    A list of all types reads a page of each type and state. Within a stretch that holds about one page in
    all, it reads just that page.
    """
    at, stretch, first = await _newest_moment(store, which), _FIRST_STRETCH, which.accepted_from
    while at is not None:
        begin = None if stretch > _LONGEST_STRETCH else at - stretch
        is_last = begin is None or (first is not None and begin <= first)
        page = await store.list_jobs(replace(which, limit=size, accepted_from=first if is_last else begin))
        if page:
            yield page
            which = replace(which, before=page[-1].job_id)
        if len(page) == size:
            at = page[-1].accepted_at
            stretch = max(2 * (page[0].accepted_at - at), _FIRST_STRETCH)
        elif is_last or begin is None:
            return
        else:
            at, stretch = begin, stretch * _GROWTH


async def _newest_moment(store: "StateStore", which: JobFilter) -> datetime | None:
    """When the first job of the list was accepted, or the one that it continues; None if there is none."""
    if which.before is not None and (found := await store.jobs_by_id([which.before])):
        return found[which.before].accepted_at
    rows = await store.list_jobs(replace(which, limit=1))
    return rows[0].accepted_at if rows else None


def has_argument(arguments: Mapping[str, Any], path: str, wanted: Any) -> bool:
    """True if the argument has this value, or this text; dots lead into objects."""
    found: Any = arguments
    for name in [path] if path in arguments else path.split("."):
        if not is_object(found) or name not in found:
            return False
        found = found[name]
    return bool(found == wanted) or str(found) == str(wanted) or json.dumps(found) == str(wanted)

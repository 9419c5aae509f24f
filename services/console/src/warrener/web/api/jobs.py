"""Lists of jobs: the filters of `warrener jobs`, page by page, with the counts of states and suggestions.

A list costs the same at ten jobs and at ten million: it goes by the indexes of the store, and filters that
have no index are compared with a bounded number of jobs for each page.
"""

import shlex
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from warrener.errors import CommandError
from warrener.job_search import FoundJobs, JobSearch, find_jobs
from warrener.options import parse_arguments
from warrener.selection import as_uuid, find_job
from warrener.web.access.masking import Masker
from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener.web.page import BadQuery
from warrener_contracts.fields import parse_duration
from warrener_contracts.state_machine import JobState
from warrener_store import UnknownJob
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.jobs.rows import JobFilter, JobRow

MAX_PAGE_SIZE = 200
MAX_BULK = 1000
"""Jobs that one bulk action takes."""
_MAX_COMPARED = 1000
"""Jobs that one page compares with filters that have no index: about 30 ms."""
_MAX_TICKS = 1000
_MAX_NAMED = 20
_EXAMINED_DEATHS = 60
_NOT_SUCCEEDED = tuple(state for state in JobState if state is not JobState.SUCCEEDED)
_STATES = frozenset(state.value for state in JobState)


class JobsQuery(BaseModel):
    """The filters of a list of jobs, as the query string of its page has them. Empty: any."""

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)

    q: str = Field(default="", description="Part of an id, the id of the request, or an idempotency key.")
    state: str = Field(default="", description="States, separated by commas: `dead,retrying`.")
    type: str = Field(default="", description="Job type.")
    queue: str = Field(default="", description="Queue of the attempts.")
    source: str = Field(default="", description="Sender of the requests.")
    schedule: str = Field(default="", description="Schedule whose ticks requested them.")
    parent: str = Field(default="", description="The job that requested them: its id or a part of it.")
    error: str = Field(
        default="",
        description="Part of the type or the message of the last error; without a state, of jobs that "
        "have not succeeded.",
    )
    argument: str = Field(default="", description="Values of arguments: `order=17 carrier=AA`.")
    trace: str = Field(default="", description="Their trace, or its beginning.")
    since: str = Field(default="", description="Accepted at this time or later: `2h` ago, or a time.")
    until: str = Field(default="", description="Accepted at this time or earlier: `30m` ago, or a time.")
    before: str = Field(default="", description="Continue behind this job: `before` of the last page.")
    limit: int = Field(default=50, ge=1, le=MAX_PAGE_SIZE, description="Maximum number of jobs.")

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Read a query string. Raises BadQuery."""
        try:
            return cls.model_validate(dict(query))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise BadQuery(f"{field}: {first['msg']}, got {first['input']!r:.60}") from None

    @property
    def states(self) -> tuple[JobState, ...]:
        """The states, in the order of a job's life. Raises BadQuery."""
        named = {word.strip() for word in self.state.split(",") if word.strip()}
        if unknown := sorted(named - _STATES):
            raise BadQuery(f"state: expected some of {', '.join(JobState)}, got {', '.join(unknown)}")
        return tuple(state for state in JobState if state.value in named)

    @property
    def filters(self) -> dict[str, str]:
        """The filters that are set, without the place in the list."""
        given = self.model_dump(exclude={"before", "limit"})
        return {name: value for name, value in given.items() if value}


class ErrorSummary(BaseModel):
    """The error of a job in a list, without its stack."""

    type: str
    message: str


class JobSummary(BaseModel):
    """A job in a list: all that a line shows. `GET /api/v1/jobs/{job_id}` has the rest."""

    model_config = ConfigDict(from_attributes=True)

    job_id: UUID
    job_type: str
    state: JobState
    queue: str
    source: str
    attempt: int
    max_attempts: int
    parent_id: UUID | None
    idempotency_key: str | None
    requested_at: datetime
    accepted_at: datetime
    due_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    progress: float | None
    progress_note: str | None
    cancel_reason: str | None
    error: ErrorSummary | None

    @classmethod
    def of(cls, row: JobRow, masker: Masker) -> "JobSummary":
        """Summarise a row of the store, without secrets."""
        error = row.error if row.state is not JobState.SUCCEEDED else None
        fields: dict[str, Any] = {
            name: value for name, value in vars(row).items() if name in cls.model_fields
        }
        fields["max_attempts"] = row.policy.max_attempts
        fields["error"] = error and ErrorSummary(type=error.type, message=masker.text(error.message[:300]))
        for name in ("progress_note", "cancel_reason"):
            fields[name] = fields[name] and masker.text(fields[name])
        return cls.model_construct(**fields)


class JobList(BaseModel):
    """A page of a list of jobs, the last accepted first.

    `before` continues it: None at the end. `is_complete` is False if only the newest jobs were compared with
    filters that have no index; the next page compares older ones.
    """

    jobs: list[JobSummary]
    before: UUID | None = None
    is_complete: bool = True


class StateCounts(BaseModel):
    """The number of jobs by state, of all times, as far as retention keeps them."""

    counts: dict[JobState, int]


class JobSuggestions(BaseModel):
    """Values that the filters of a list may have."""

    types: list[str]
    queues: list[str]
    errors: list[str]
    schedules: list[str]


async def list_jobs(console: Console, query: JobsQuery) -> JobList:
    """List jobs. Raises BadQuery."""
    found = await find_rows(console, query)
    return JobList(
        jobs=[JobSummary.of(row, console.masker) for row in found.rows],
        before=found.before,
        is_complete=found.is_complete,
    )


async def find_rows(console: Console, query: JobsQuery) -> FoundJobs:
    """Find the rows of a page. Raises BadQuery."""
    search = await _search(console, query)
    if query.q:
        named = await console.store.find_jobs(query.q, _MAX_NAMED)
        return FoundJobs([row for row in named if _is_listed(search, row)])
    if query.schedule:
        return await _jobs_of_schedule(console, query.schedule, search)
    try:
        return await find_jobs(console.store, search, max_examined=_MAX_COMPARED)
    except UnknownJob as error:
        raise BadQuery(str(error)) from None


async def _search(console: Console, query: JobsQuery) -> JobSearch:
    now = await console.now()
    parent = None
    try:
        arguments = parse_arguments(shlex.split(query.argument)) if query.argument else {}
        if query.parent:
            parent = (await find_job(console.store, query.parent)).job_id
    except CommandError as error:
        raise BadQuery(str(error)) from None
    except ValueError as error:  # shlex: a quotation mark without its partner
        raise BadQuery(
            f"argument: expected words like order=17, got {query.argument!r:.60} ({error})"
        ) from None
    before = as_uuid(query.before)
    if query.before and before is None:
        raise BadQuery(f"before: expected the id of a job, got {query.before!r:.60}")
    return JobSearch(
        JobFilter(
            states=query.states or (_NOT_SUCCEEDED if query.error else ()),
            job_type=query.type or None,
            parent_id=parent,
            accepted_from=_moment("since", query.since, now),
            accepted_until=_moment("until", query.until, now),
            before=before,
            limit=query.limit,
        ),
        queue=query.queue or None,
        source=query.source or None,
        trace=query.trace or None,
        error=query.error or None,
        arguments=arguments,
    )


def _moment(name: str, text: str, now: datetime) -> datetime | None:
    """A time, or one that lies a duration in the past."""
    if not text:
        return None
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadQuery(
            f"{name}: expected a duration such as 90s, 2h or P1D, or a time such as "
            f"2026-11-20T12:00Z, got {text!r:.60}"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _is_listed(search: JobSearch, row: JobRow) -> bool:
    """True if the row meets the filters, those that the indexes select by included."""
    which = search.which
    return (
        (not which.states or row.state in which.states)
        and which.job_type in (None, row.job_type)
        and which.parent_id in (None, row.parent_id)
        and (which.accepted_from is None or row.accepted_at >= which.accepted_from)
        and (which.accepted_until is None or row.accepted_at <= which.accepted_until)
        and search.matches(row)
    )


async def _jobs_of_schedule(console: Console, schedule: str, search: JobSearch) -> FoundJobs:
    """The jobs of the newest ticks, by their ids: no other job of the type is looked at."""
    ticks = await console.store.ticks_of(schedule, _MAX_TICKS)
    ids = list(dict.fromkeys(tick.job_id for tick in ticks if tick.job_id is not None))
    before, limit = search.which.before, search.which.limit
    if before is not None and before in ids:
        ids = ids[ids.index(before) + 1 :]
    found: list[JobRow] = []
    for first in range(0, len(ids), MAX_PAGE_SIZE):
        rows = await console.store.jobs_by_id(ids[first : first + MAX_PAGE_SIZE])
        named = [rows[job_id] for job_id in ids[first : first + MAX_PAGE_SIZE] if job_id in rows]
        found += [row for row in named if _is_listed(search, row)]
        if len(found) > limit:
            return FoundJobs(found[:limit], before=found[limit - 1].job_id)
    return FoundJobs(found)


async def count_states(console: Console, query: JobsQuery) -> StateCounts:
    """Count jobs by state, of the type and the queue of the query. The counts are maintained by the store."""
    totals: Counter[JobState] = Counter()
    for count in await console.store.count_jobs():
        if query.type in ("", count.job_type) and query.queue in ("", count.queue):
            totals[count.state] += count.jobs
    return StateCounts(counts={state: max(totals[state], 0) for state in JobState})


async def suggest(console: Console) -> JobSuggestions:
    """Suggest values for the filters: the store's job types, queues and schedules, and errors of late."""
    counts = await console.store.count_jobs()
    types = await console.store.job_types()
    deaths = await console.store.dead_letter_store.list_dead_letters(
        DeadLetterFilter(states=(), limit=_EXAMINED_DEATHS)
    )
    errors = Counter(death.error.type for death in deaths if death.error is not None)
    return JobSuggestions(
        types=sorted({count.job_type for count in counts} | types.keys()),
        queues=sorted({count.queue for count in counts} | {row.queue for row in types.values()}),
        errors=[name for name, _ in errors.most_common()],
        schedules=sorted(await console.store.schedules()),
    )


async def find_bulk(
    console: Console, query: JobsQuery, states: frozenset[JobState]
) -> tuple[list[UUID], bool]:
    """Find the newest MAX_BULK jobs in these states that match; True if that is all of them."""
    found: list[UUID] = []
    wanted = [state for state in query.states or JobState if state in states]
    page: JobsQuery | None = query.model_copy(
        update={"state": ",".join(wanted), "before": "", "limit": MAX_PAGE_SIZE}
    )
    while wanted and page is not None and len(found) < MAX_BULK:
        rows = await find_rows(console, page)
        found += [row.job_id for row in rows.rows]
        page = page.model_copy(update={"before": str(rows.before)}) if rows.before else None
    return found[:MAX_BULK], page is None and len(found) <= MAX_BULK


router = APIRouter(tags=["jobs"])


@router.get("/jobs")
async def get_jobs(console: ConsoleOfApp, query: Annotated[JobsQuery, Query()]) -> JobList:
    """List jobs, the last accepted first."""
    return await list_jobs(console, query)


@router.get("/job-states")
async def get_states(console: ConsoleOfApp, query: Annotated[JobsQuery, Query()]) -> StateCounts:
    """Count jobs by state, of one type or queue if the query names one."""
    return await count_states(console, query)


@router.get("/job-suggestions")
async def get_suggestions(console: ConsoleOfApp) -> JobSuggestions:
    """Suggest values for the filters of a list of jobs."""
    return await suggest(console)

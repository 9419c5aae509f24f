"""Jobs: how they are listed and counted, and their cancellation.

A list costs the same at ten jobs and at ten million: it goes by the indexes of the store, and filters that
have no index are compared with a bounded number of jobs for each page.
"""

import asyncio
import json
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field

from warrener.errors import CommandError, ExitCode, UsageError, find_failures
from warrener.operations import noun
from warrener.operations.job_search import FoundJobs, JobSearch, find_jobs, has_argument
from warrener.operations.masking import Masker, mask_error
from warrener.options import parse_arguments, report_invalid_fields
from warrener.render.jobs import awaited_text, id_text, state_text
from warrener.render.screen import WIDE, one_line, out, table
from warrener.selection import as_uuid, find_job, find_job_id
from warrener_contracts.events import ErrorInfo, JsonObject
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_runtime.secrets import cut
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.errors import UnknownJob
from warrener_store.jobs.rows import JobFilter, JobRow

if TYPE_CHECKING:
    from warrener_store.workflows.rows import TurnRow

MAX_BULK = 1000  # jobs that one command takes
NOT_OVER = frozenset(JobState) - TERMINAL
_AT_ONCE = 100  # cancels
_MAX_REFUSALS = 20
_MAX_MESSAGE = 300  # characters of an error in a list
_MAX_ARGUMENTS, _MAX_VALUE = 100, 1000  # characters of all arguments, and of one, in a list
_PAGE = 200  # of a search for MAX_BULK jobs
_MAX_COMPARED = 1000  # jobs that one page compares with filters that have no index: about 30 ms
_MAX_TICKS = 1000
_MAX_NAMED = 20
_HELD = (JobState.WAITING, JobState.RETRYING)
_TIMED = (*_HELD, JobState.SUSPENDED)
_MAX_JOURNALS = 50  # of suspended jobs of a page
_NOT_SUCCEEDED = tuple(state for state in JobState if state is not JobState.SUCCEEDED)


def _read_states(given: Any) -> Any:
    """Read states: a list of them, or texts with commas. Raises ValueError."""
    texts = [given] if isinstance(given, str) else given
    named = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if unknown := sorted(set(named) - set(JobState)):
        raise ValueError(f"expected some of {', '.join(JobState)}, got {', '.join(unknown)}")
    return named


class JobsQuery(noun.ListQuery):
    """The jobs to list."""

    q: Annotated[str, noun.Flag("--id")] = Field(
        default="", description="Part of an id, the id of the request, or an idempotency key."
    )
    state: Annotated[list[JobState], BeforeValidator(_read_states)] = Field(
        default_factory=list[JobState], description="States: dead,retrying."
    )
    type: str = Field(default="", description="Job type.")
    queue: str = Field(default="", description="Queue of the attempts.")
    source: str = Field(default="", description="Sender of the requests.")
    schedule: str = Field(default="", description="Schedule whose ticks requested them.")
    parent: str = Field(default="", description="The job that requested them: its id or a part of it.")
    top: bool = Field(default=False, description="No child jobs, which other jobs have requested.")
    error: str = Field(
        default="",
        description="Part of the type or the message of the last error; without a state, of jobs that "
        "have not succeeded.",
    )
    argument: str = Field(
        default="", description="Values of arguments (dots lead into objects): order=17 carrier=AA."
    )
    trace: str = Field(default="", description="Their trace, or its beginning.")
    since: noun.Time = Field(
        default=None, description="Maximum time since their requests were accepted, or a time."
    )
    until: noun.Time = Field(
        default=None, description="Minimum time since their requests were accepted, or a time."
    )


class ListedJob(BaseModel):
    """A job. A list has the beginnings of its arguments and of its error's message, no stack, and no flight
    record."""

    job_id: UUID
    job_type: str
    state: JobState
    queue: str
    source: str
    attempt: int
    suspensions: int = Field(
        default=0, description="Of a workflow: its turns that ended and were not the last."
    )
    max_attempts: int
    parent_id: UUID | None
    member_of: str | None = Field(
        default=None, description="The batch of a map of its parent: how many jobs it has, and its call."
    )
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
    held_by: str | None = Field(description="The circuit breaker that holds it back.")
    brief_arguments: str = Field(description="Its arguments in a line, which is cut if it is long.")
    error: ErrorInfo | None = Field(
        description="Of its last attempt that went wrong; of none if it succeeded."
    )
    awaits: str = Field(
        default="", description="What a suspended workflow waits for, or the limit of a waiting job."
    )

    @property
    def waits_until(self) -> datetime | None:
        """The time that it waits for; None if a breaker holds it back, or a limit."""
        is_held = self.held_by or (self.awaits and self.state in _HELD)
        return self.due_at if self.state in _TIMED and not is_held else None

    @property
    def counted_attempts(self) -> str:
        """`2/5`: the number alone once attempts that were not charged exceed the maximum; `turn 3` of a
        workflow, whose turns are no retries."""
        shown = str(self.attempt or "")
        if self.suspensions:
            return f"turn {shown}"
        return f"{shown}/{self.max_attempts}" if 0 < self.attempt <= self.max_attempts else shown

    @property
    def took(self) -> timedelta | None:
        return None if self.finished_at is None else self.finished_at - self.requested_at

    @property
    def why(self) -> str:
        if self.held_by or self.awaits:
            return f"held by {self.held_by}" if self.held_by else self.awaits
        if self.state is JobState.CANCELLED and self.cancel_reason:
            return self.cancel_reason
        if self.error is not None and self.state is not JobState.RUNNING:
            return f"{self.error.type.rpartition('.')[-1]}: {self.error.message}"
        if self.state is JobState.RUNNING and self.progress is not None:
            return f"{self.progress:.0%} {self.progress_note or ''}".strip()
        return self.cancel_reason or ""


class JobsPage(BaseModel):
    """A page of jobs, the last accepted first. `next`: pass it as `after`.

    `is_complete`: False if the newest jobs alone were compared with filters that have no index; the next page
    compares older ones. `counts`: all jobs of the type and the queue by state, as far as they are stored.
    """

    jobs: list[ListedJob]
    next: str | None
    is_complete: bool
    counts: dict[JobState, int]


async def list_jobs(backend: noun.Backend, query: JobsQuery, max_compared: int = _MAX_COMPARED) -> JobsPage:
    """List jobs, the newest first.

    $ warrener jobs
    $ warrener jobs --state dead --state retrying --type flights.load
    $ warrener jobs --since 2h --queue mails --argument order=17 --error Timeout
    $ warrener jobs --state rejected
    $ warrener jobs --watch
    $ warrener jobs --json | jq -r '.[] | select(.state=="dead") | .job_id'
    """
    found, masker = await _find(backend, query, max_compared), await backend.learn()
    breakers = OpenBreakers(await backend.store.breakers())
    totals: Counter[JobState] = Counter()
    for count in await backend.store.count_jobs():
        if query.type in ("", count.job_type) and query.queue in ("", count.queue):
            totals[count.state] += count.jobs
    suspended = [row.job_id for row in found.rows if row.state is JobState.SUSPENDED][:_MAX_JOURNALS]
    turns = await backend.store.turns_of(suspended) if suspended else {}
    return JobsPage(
        jobs=[job_of(row, masker, breakers, turns.get(row.job_id, ())) for row in found.rows],
        next=None if found.before is None else str(found.before),
        is_complete=found.is_complete,
        counts={state: max(totals[state], 0) for state in JobState},
    )


def job_of(
    row: JobRow, masker: Masker, breakers: OpenBreakers = NO_OPEN_BREAKERS, turns: "Sequence[TurnRow]" = ()
) -> ListedJob:
    """Make a job of its row, without secrets."""
    return ListedJob.model_construct(**job_fields(ListedJob, row, masker, breakers, turns))


def job_fields(
    model: type[ListedJob],
    row: JobRow,
    masker: Masker,
    breakers: OpenBreakers = NO_OPEN_BREAKERS,
    turns: "Sequence[TurnRow]" = (),
) -> dict[str, Any]:
    """The fields that a row has of a model, without secrets. `turns`: those of a workflow."""
    masker, error = masker.of(row.job_type), row.error if row.state is not JobState.SUCCEEDED else None
    if error is not None and model is ListedJob:
        beginning = {"message": cut(error.message, _MAX_MESSAGE), "stack": None, "flight_record": None}
        error = error.model_copy(update=beginning)
    breaker = breakers.find_blocking(row.job_type, row.policy, row.queue) if row.state in _HELD else None
    texts = {name: getattr(row, name) for name in ("progress_note", "cancel_reason")}
    awaits, timer = awaited_text(row, turns)
    return noun.fields_from(model, row) | {
        "awaits": awaits,
        "due_at": timer or row.due_at,
        "max_attempts": row.policy.max_attempts,
        "held_by": breaker and breaker.name,
        "brief_arguments": _write_briefly(row.arguments, masker),
        "error": mask_error(masker, error),
        **{name: text and masker.text(text) for name, text in texts.items()},
    }


def _write_briefly(arguments: JsonObject, masker: Masker) -> str:
    """Write arguments as the filter of a list takes them, `path=a.csv rows=17`, without secrets."""
    shortened = {
        name: f"{cut(value, _MAX_VALUE)}…" if isinstance(value, str) and len(value) > _MAX_VALUE else value
        for name, value in arguments.items()
    }
    words = [
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in masker.value(shortened).items()
    ]
    line = one_line(" ".join(words))
    return line if len(line) <= _MAX_ARGUMENTS else f"{line[: _MAX_ARGUMENTS - 1]}…"


async def _find(backend: noun.Backend, query: JobsQuery, max_compared: int) -> FoundJobs:
    search = await _search(backend, query)
    if query.q:
        named = await backend.store.find_jobs(query.q, _MAX_NAMED)
        return FoundJobs([row for row in named if search.lists(row)])
    if query.schedule:
        return await _jobs_of_schedule(backend, query.schedule, search)
    try:
        return await find_jobs(backend.store, search, max_examined=max_compared)
    except UnknownJob as error:
        raise UsageError(str(error)) from None


async def _search(backend: noun.Backend, query: JobsQuery) -> JobSearch:
    try:
        arguments = parse_arguments(shlex.split(query.argument)) if query.argument else {}
    except ValueError as error:  # shlex: a quotation mark without its partner
        raise UsageError(
            f"argument: expected words like order=17, got {query.argument!r:.60} ({error})"
        ) from None
    before = as_uuid(query.after)
    if query.after and before is None:
        raise UsageError(f"after: expected the `next` of a page, got {query.after!r:.60}")
    parent = (await find_job(backend.store, query.parent)).job_id if query.parent else None
    trace, error_text, masker = query.trace.lower(), query.error.lower(), await backend.learn()

    def matches(row: JobRow) -> bool:
        error = "" if row.error is None else f"{row.error.type}: {row.error.message}"
        hide = masker.of(row.job_type)
        return (
            not (query.top and row.parent_id)
            and query.queue in ("", row.queue)
            and query.source in ("", row.source)
            and (not trace or (row.traceparent or "--").split("-")[1].startswith(trace))
            # Few rows have the text: those alone are masked. Nobody finds a hidden value by searching.
            and error_text in error.lower()
            and (not error_text or error_text in hide.text(error).lower())
            and all(has_argument(row.arguments, name, value) for name, value in arguments.items())
            and (not arguments or _shows_arguments(hide.value(row.arguments), arguments))
        )

    return JobSearch(
        JobFilter(
            states=tuple(query.state) or (_NOT_SUCCEEDED if query.error else ()),
            job_type=query.type or None,
            parent_id=parent,
            accepted_from=query.since,
            accepted_until=query.until,
            before=before,
            limit=query.limit,
        ),
        matches if any((query.top, query.queue, query.source, trace, error_text, arguments)) else None,
    )


def _shows_arguments(masked: JsonObject, wanted: JsonObject) -> bool:
    return all(has_argument(masked, name, value) for name, value in wanted.items())


async def _jobs_of_schedule(backend: noun.Backend, schedule: str, search: JobSearch) -> FoundJobs:
    """The jobs of the newest ticks, by their ids: no other job of the type is looked at."""
    ticks = await backend.store.ticks_of(schedule, _MAX_TICKS)
    ids = list(dict.fromkeys(tick.job_id for tick in ticks if tick.job_id is not None))
    before, limit = search.which.before, search.which.limit
    if before is not None and before in ids:
        ids = ids[ids.index(before) + 1 :]
    found: list[JobRow] = []
    for first in range(0, len(ids), _PAGE):
        rows = await backend.store.jobs_by_id(ids[first : first + _PAGE])
        named = [rows[job_id] for job_id in ids[first : first + _PAGE] if job_id in rows]
        found += filter(search.lists, named)
        if len(found) > limit:
            return FoundJobs(found[:limit], before=found[limit - 1].job_id)
    return FoundJobs(found)


# -- verbs -------------------------------------------------------------------------------------------------


class JobSelection(noun.Selection):
    """The jobs of a verb: those of these ids, or all that match the filters of a list."""

    query: str = Field(
        default="",
        description=f"Filters of a list as in its address, state=waiting&type=flights.load: the newest "
        f"{MAX_BULK:,} jobs that match.",
    )

    @property
    def conditions(self) -> str:
        return f"jobs that match {self.query[:200]}"


class CancelBody(JobSelection):
    """Cancel jobs; with `tree` also their child jobs, present and future."""

    tree: bool = Field(default=False, description="Also all child jobs, present and future.")


async def select_jobs(
    call: noun.VerbCall[Any], states: Collection[JobState], what: str
) -> tuple[list[UUID], str]:
    """Find the jobs of a verb, those of a list in these states, and a word about those that are left out.

    Raises CommandError if there are none: "expected `what`, got none". Whole ids need no store.
    """
    body: JobSelection = call.body
    if not _is_by_filter(body):
        return await find_ids(call.backend, body.ids), ""
    await call.backend.open_store()
    rows, is_all = await _find_bulk(call.backend, body.query, states)
    if not rows:
        raise CommandError(
            f"expected {what}, got none; choose some, or change the filters", code=ExitCode.NOT_SUCCESSFUL
        )
    rest = "" if is_all else f"; more may match: these were the newest {len(rows):,} that were found"
    return [row.job_id for row in rows], rest


def _is_by_filter(body: JobSelection) -> bool:
    """True for filters, False for ids. Raises CommandError for both, or neither."""
    if bool(body.ids) is bool(body.query):
        raise UsageError(
            f"expected ids of jobs, or filters of a list, got {'both' if body.ids else 'neither'}",
            do="choose some; `warrener jobs` takes the same filters",
        )
    return bool(body.query)


async def find_ids(backend: noun.Backend, texts: Sequence[str]) -> list[UUID]:
    """Find the ids of jobs; without an open store, whole ones stand for themselves."""
    wholes = [whole for text in texts if (whole := as_uuid(text)) is not None]
    if not backend.has_store and len(wholes) == len(texts):
        return wholes
    await backend.open_store()
    return [await find_job_id(backend.store, text) for text in texts]


async def _find_bulk(
    backend: noun.Backend, filters: str, states: Collection[JobState]
) -> tuple[list[JobRow], bool]:
    """Find the newest MAX_BULK jobs in these states that match; True if that is all of them."""
    given = dict(parse_qsl(filters.removeprefix("?")))
    with report_invalid_fields():
        query = JobsQuery.model_validate({**given, "after": "", "limit": _PAGE})
    wanted = [state for state in query.state or JobState if state in states]
    found: list[JobRow] = []
    page: JobsQuery | None = query.model_copy(update={"state": wanted}) if wanted else None
    while page is not None and len(found) < MAX_BULK:
        rows = await _find(backend, page, _MAX_COMPARED)
        found += rows.rows
        page = page.model_copy(update={"after": str(rows.before)}) if rows.before else None
    return found[:MAX_BULK], page is None and len(found) <= MAX_BULK


async def preview_cancel(call: noun.VerbCall[CancelBody]) -> noun.Preview:
    """Count the jobs that would be cancelled, by type and state. An id without a job awaits its request."""
    store, body = call.backend.store, call.body
    is_all, unknown = True, 0
    if _is_by_filter(body):
        rows, is_all = await _find_bulk(call.backend, body.query, NOT_OVER)
    else:
        ids = dict.fromkeys(await find_ids(call.backend, body.ids))
        known = await store.jobs_by_id(ids)
        rows, unknown = [row for row in known.values() if row.state in NOT_OVER], len(ids) - len(known)
    counts = Counter((row.job_type, row.state.value) for row in rows)
    groups = [*sorted(counts.items()), *([(("", "not requested yet"), unknown)] if unknown else [])]
    return noun.Preview(
        len(rows) + unknown,
        [{"job_type": job_type, "state": state, "jobs": jobs} for (job_type, state), jobs in groups],
        is_complete=is_all,
    )


async def cancel_jobs(call: noun.VerbCall[CancelBody]) -> noun.Outcome:
    """Cancel a job, or several.

    A waiting job is cancelled at once; a running one is stopped by its agent. --tree also cancels the
    child jobs of the job, and theirs, even if the job itself has ended. Exit code 4: it has ended otherwise.
    Filters, those of `warrener jobs`, stand in place of ids; then the command only shows the jobs without
    --yes.

    $ warrener cancel 01936f2e-8a3b-7c4d-9e5f-0123456789ab
    $ warrener cancel 456789ab --reason "wrong file"
    $ warrener cancel 456789ab --tree
    $ warrener cancel --type flights.load --state waiting --dry-run
    $ warrener cancel --type flights.load --since 2h --yes
    """
    tree, timeout = call.body.tree, call.reply_timeout
    job_ids, rest = await select_jobs(call, NOT_OVER, "jobs that are not over")
    client, slots = await call.backend.client(), asyncio.Semaphore(_AT_ONCE)

    async def cancel(job_id: UUID) -> str:
        async with slots:
            return await client.cancel(job_id, call.reason, tree=tree, reply_timeout=timeout)

    answers = await asyncio.gather(*map(cancel, job_ids), return_exceptions=True)
    failures: dict[str, CommandError] = {}
    for job_id, answer in zip(job_ids, answers, strict=True):
        if isinstance(answer, BaseException):
            known = find_failures(answer) if isinstance(answer, Exception) else []
            if not known:
                raise answer
            failures[str(job_id)] = known[0]
    is_one, done = len(call.body.ids) == 1, len(job_ids) - len(failures)
    is_away = all(one.code is ExitCode.UNREACHABLE for one in failures.values())
    if isinstance(answers[0], BaseException) and not done and (is_one or is_away):
        raise answers[0]
    if is_one:
        named = f"{job_ids[0]}{' with its child jobs' if tree else ''}"
        sentence = f"cancel of {named} accepted: {answers[0]}" if answers[0] else f"cancelled {named}"
    else:
        sentence = f"cancelled {done:,} of {len(job_ids):,} jobs{rest}"
    if failures:
        why, count = Counter(one.sentence for one in failures.values()).most_common(1)[0]
        sentence += f"; {count:,} refused: {why}"
    refused = table("job", "why")
    for name, one in failures.items():
        refused.add_row(name, one.sentence)
    named = ", ".join(map(str, job_ids[:_MAX_REFUSALS]))
    more = f" and {len(job_ids) - _MAX_REFUSALS:,} more" if len(job_ids) > _MAX_REFUSALS else ""
    return noun.Outcome(
        accepted=done > 0,
        is_partial=bool(done and failures),
        sentence=sentence,
        details={
            **({"job_id": str(job_ids[0])} if is_one else {"job_ids": [str(one) for one in job_ids]}),
            **({} if timeout is None else {"cancelled": done}),
            "refused": {one: why.sentence for one, why in [*failures.items()][:_MAX_REFUSALS]},
        },
        unconfirmed=f"requested to cancel {named}{more}{rest}; a supervisor carries it out",
        shown=refused if failures else None,
    )


JOBS = noun.Noun(
    word="job",
    command="jobs",
    plural="jobs",
    key="job_id",
    key_help="Id of a job, a part of it, or the id of its request.",
    query=JobsQuery,
    list=list_jobs,
    verbs=(noun.Verb("cancel", CancelBody, cancel_jobs, keys="ids", preview=preview_cancel, reads=False),),
    columns={
        "job": lambda one: id_text(one.job_id, wide=out().width >= WIDE),
        "type": "job_type",
        "state": lambda one: state_text(one.state),
        "attempt": "counted_attempts",
        "requested": "requested_at",
        "took": "took",
        "due": "waits_until",
        "why": "why",
    },
    empty="No job matches; `warrener jobs` lists all, `warrener request TYPE` requests one.",
)
"""Without what one job has beside its row: see `operations.job`."""

"""One job: its rows, its timeline, what blocks it, and its log lines."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from warrener.errors import CommandError
from warrener.explanations import explain
from warrener.explanations.explanation import Explanation
from warrener.gathering import gather_job
from warrener.render.trace import trace_data
from warrener.render.waterfall import MAX_CHILD_JOBS, WaterfallFacts, lay_out
from warrener.selection import find_job
from warrener.web.api import ConsoleOfApp
from warrener.web.api.dead_letters import mask_redrive
from warrener.web.api.jobs import JobSummary
from warrener.web.console import Console
from warrener.web.masked_rows import mask_attempt, mask_dead_letter, mask_explanation, mask_job
from warrener.web.page import PageNotFound
from warrener_contracts.events import LogEntry
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter, RedriveRow
from warrener_store.jobs.rows import AttemptRow, JobFilter, JobRow
from warrener_store.jobs.views import CheckpointRow
from warrener_store.logs.rows import MAX_LOGGED_ATTEMPTS, LogReader

_SCHEDULE_SOURCE = "warrener/schedule/"
_EXAMINED_TICKS = 20
_EXAMINED_RUNS = 20
MAX_LOG_LINES = 500
"""The newest lines of an attempt that one answer has."""


class ScheduleTick(BaseModel):
    """The tick that requested a job; `nominal_at` is None for one that is no longer stored."""

    schedule: str
    nominal_at: datetime | None = None


class JobDocument(BaseModel):
    """A job with all that the store has beside it.

    `in_place_of` is the dead job that a redrive has requested again as this one, and `redriven_as` the job
    that a redrive has made of this one. `versions`: those of the code that ran each attempt, by its number.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    job: JobRow
    attempts: list[AttemptRow]
    versions: dict[int, str]
    child_jobs: list[JobSummary]
    parent: JobSummary | None = None
    checkpoint: CheckpointRow | None = None
    dead_letter: DeadLetter | None = None
    redrive: RedriveRow | None = None
    redriven_as: JobSummary | None = None
    in_place_of: UUID | None = None
    tick: ScheduleTick | None = None
    trace_id: str | None = None
    trace_url: str | None = None


class LoggedEntry(BaseModel):
    """A log line; `omitted` lines before it are missing."""

    omitted: int
    entry: LogEntry


class LogDocument(BaseModel):
    """The newest stored lines of one attempt. `is_complete`: its last line is among them."""

    attempt: int
    agents: list[str]
    lines: list[LoggedEntry]
    cut: int = 0
    is_complete: bool = False


async def find_row(console: Console, text: str) -> JobRow:
    """Find a job by its id, a part of it, or the id or the key of its request. Raises PageNotFound."""
    try:
        return await find_job(console.store, text)
    except CommandError as error:
        raise PageNotFound(str(error)) from None


async def read_job(console: Console, row: JobRow) -> JobDocument:
    """Read what the store has beside a job's row."""
    store = console.store
    dead_letters = store.dead_letter_store
    own = await dead_letters.list_dead_letters(DeadLetterFilter(states=(), job_ids=(row.job_id,)))
    origins = await dead_letters.list_dead_letters(
        DeadLetterFilter(states=(), redriven_as=(row.job_id,), limit=1)
    )
    dead_letter = own[0] if own else None
    redriven_as = dead_letter.redriven_as if dead_letter else None
    redrive_id = dead_letter.redrive_id if dead_letter else origins[0].redrive_id if origins else None
    related = await store.jobs_by_id([job_id for job_id in (row.parent_id, redriven_as) if job_id])
    redrives = await dead_letters.redrives([redrive_id]) if redrive_id else []
    children = await store.list_jobs(JobFilter(parent_id=row.job_id, limit=MAX_CHILD_JOBS))
    trace_id = row.traceparent.split("-")[1] if row.traceparent else None
    masker, checkpoint = console.masker, (await store.checkpoints_of([row.job_id])).get(row.job_id)
    attempts = [mask_attempt(masker, one) for one in await store.attempts_of([row.job_id])]
    return JobDocument.model_construct(
        job=mask_job(masker, row),
        attempts=attempts,
        versions=await _versions(console, row, attempts),
        child_jobs=[JobSummary.of(child, masker) for child in children],
        parent=_summary(console, related.get(row.parent_id)) if row.parent_id else None,
        checkpoint=checkpoint and replace(checkpoint, state=masker.value(checkpoint.state)),
        dead_letter=dead_letter and mask_dead_letter(masker, dead_letter),
        redrive=mask_redrive(console, redrives[0]) if redrives else None,
        redriven_as=_summary(console, related.get(redriven_as)) if redriven_as else None,
        in_place_of=origins[0].job_id if origins else None,
        tick=await _tick_of(console, row),
        trace_id=trace_id,
        trace_url=_trace_url(console, trace_id),
    )


def _summary(console: Console, row: JobRow | None) -> JobSummary | None:
    return None if row is None else JobSummary.of(row, console.masker)


async def _versions(console: Console, row: JobRow, attempts: Sequence[AttemptRow]) -> dict[int, str]:
    """The versions of the code that ran the attempts, by number, as far as their agents named them."""
    ran = [(one.attempt, one.agent_id, one.started_at) for one in attempts]
    if row.state is JobState.RUNNING:
        ran.append((row.attempt, row.agent_id, row.started_at))
    agents = {agent_id for _, agent_id, _ in ran if agent_id}
    known = await console.store.statistics.agent_versions(agents) if agents else []
    found: dict[int, str] = {}
    for number, agent_id, started_at in ran:
        for version in known:  # by time
            if version.agent_id == agent_id and started_at is not None and version.since <= started_at:
                found[number] = version.code_version
    return found


def _trace_url(console: Console, trace_id: str | None) -> str | None:
    template = console.settings.console_trace_url
    return template.replace("{trace_id}", trace_id) if template and trace_id else None


async def _tick_of(console: Console, row: JobRow) -> ScheduleTick | None:
    name = row.source.removeprefix(_SCHEDULE_SOURCE)
    if name == row.source:
        return None
    ticks = await console.store.ticks_of(name, _EXAMINED_TICKS, end=row.requested_at)
    nominal_at = next((tick.nominal_at for tick in ticks if tick.job_id == row.job_id), None)
    return ScheduleTick(schedule=name, nominal_at=nominal_at)


async def read_timeline(console: Console, row: JobRow, zone: tzinfo = UTC) -> WaterfallFacts:
    """Read the facts of a job's waterfall."""
    store = console.store
    agents = await store.agents() if row.state is JobState.RUNNING else []
    masker = console.masker
    return WaterfallFacts(
        row=mask_job(masker, row),
        attempts=[mask_attempt(masker, one) for one in await store.attempts_of([row.job_id])],
        child_jobs=await store.list_jobs(JobFilter(parent_id=row.job_id, limit=MAX_CHILD_JOBS)),
        checkpoint=(await store.checkpoints_of([row.job_id])).get(row.job_id),
        last_heartbeat={agent.agent_id: agent.last_seen_at for agent in agents}.get(row.agent_id or ""),
        now=await console.now(),
        expected=None if row.state.terminal else await _usual_duration(console, row),
        zone=zone,
    )


async def _usual_duration(console: Console, row: JobRow) -> timedelta | None:
    """The median duration of the newest successes of the job's type."""
    which = JobFilter(states=(JobState.SUCCEEDED,), job_type=row.job_type, limit=_EXAMINED_RUNS)
    rows = await console.store.list_jobs(which)
    attempts = await console.store.attempts_of([each.job_id for each in rows])
    ran = sorted(one.finished_at - one.started_at for one in attempts if one.started_at)
    return max(ran[len(ran) // 2], timedelta(0)) if ran else None


async def explain_job(console: Console, row: JobRow) -> Explanation:
    """Explain what a job waits for, as `warrener explain` does."""
    facts = await gather_job(console.store, console.endpoints, row, query_broker=console.inspector.query)
    return mask_explanation(console.masker, explain(facts))


async def read_log(console: Console, row: JobRow, attempt: int | None = None) -> LogDocument:
    """Read the newest lines of an attempt; None: of the newest one that has any."""
    newest = max(row.attempt, 1)
    numbers: Sequence[int] = [attempt] if attempt else range(newest, max(newest - MAX_LOGGED_ATTEMPTS, 0), -1)
    for number in numbers:
        chunks = await console.store.logs_of(row.job_id, attempt=number)
        if chunks:
            lines = LogReader().read(chunks)
            return LogDocument.model_construct(
                attempt=number,
                agents=list(dict.fromkeys(chunk.agent_id for chunk in chunks)),
                lines=[
                    LoggedEntry.model_construct(
                        omitted=line.omitted,
                        entry=line.entry.model_copy(update={"text": console.masker.text(line.entry.text)}),
                    )
                    for line in lines[-MAX_LOG_LINES:]
                ],
                cut=max(len(lines) - MAX_LOG_LINES, 0),
                is_complete=chunks[-1].final,
            )
    return LogDocument(attempt=numbers[0], agents=[], lines=[])


router = APIRouter(tags=["jobs"])


@router.get("/jobs/{job_id}")
async def get_job(console: ConsoleOfApp, job_id: str) -> JobDocument:
    """A job by its id, a part of it, the id of its request, or its idempotency key."""
    return await read_job(console, await find_row(console, job_id))


@router.get("/jobs/{job_id}/timeline")
async def get_timeline(console: ConsoleOfApp, job_id: str) -> dict[str, Any]:
    """The waterfall of a job: each interval of its life with its cause, as `warrener trace --json` has it."""
    facts = await read_timeline(console, await find_row(console, job_id))
    return trace_data(facts, lay_out(facts))


@router.get("/jobs/{job_id}/explanation")
async def get_explanation(console: ConsoleOfApp, job_id: str) -> Explanation:
    """The one thing that a job waits for, since when, and what resolves it."""
    return await explain_job(console, await find_row(console, job_id))


@router.get("/jobs/{job_id}/logs")
async def get_log(console: ConsoleOfApp, job_id: str, attempt: int | None = None) -> LogDocument:
    """The newest log lines of an attempt: of the newest one that has any, if none is named."""
    return await read_log(console, await find_row(console, job_id), attempt)

"""Schedules: lists with their last runs, one schedule with its next ticks, and the history of its ticks."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from warrener.render.schedules import rule_text
from warrener.web.access.masking import Masker
from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener.web.page import BadQuery, PageNotFound
from warrener.web.tick_calendar import TickDay, UpcomingTick
from warrener_contracts.events import JsonObject, TickStatus
from warrener_contracts.state_machine import JobState
from warrener_contracts.triggers import TriggerRule
from warrener_store.schedules.port import LAST_TIME
from warrener_store.schedules.rows import ScheduledRun, ScheduleFilter, ScheduleRow
from warrener_store.schedules.rules import is_over, overdue_since

router = APIRouter(tags=["schedules"])

STRIP = 24
"""Runs of a schedule that a list shows."""
_MAX_EXAMINED = 5  # pages that one request reads while it looks for schedules of a state
_MAX_HISTORY = 500  # runs that the pictures of one schedule are made of
_MAX_TICKS = 500

ScheduleState = Literal["active", "paused", "overdue", "over"]


class SchedulesQuery(BaseModel):
    """The schedules to list. `after`: the `next` of the page before."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: Annotated[str, Field(max_length=120)] = ""
    state: ScheduleState | Literal[""] = ""
    owner: Annotated[str, Field(max_length=60)] = ""
    job_type: Annotated[str, Field(max_length=200)] = ""
    after: Annotated[str, Field(max_length=120)] = ""
    limit: Annotated[int, Field(ge=1, le=200)] = 25


class ListedRun(BaseModel):
    """A tick and its job. Without a `state` it has no job, or the store has it no longer."""

    nominal_at: datetime
    status: TickStatus
    reason: str
    late: timedelta
    job_id: UUID | None
    state: JobState | None
    attempt: int | None
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def duration(self) -> timedelta | None:
        """Length of the last attempt, if it is over."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(self.finished_at - self.started_at, timedelta(0))


class ScheduleSummary(BaseModel):
    """A schedule in a list, with its newest runs, the newest first."""

    name: str
    job_type: str
    rule: str
    timezone: str
    owner: str | None
    state: ScheduleState
    pause_reason: str
    overdue_since: datetime | None
    next_at: datetime | None
    runs: int
    last_runs: list[ListedRun]

    @property
    def success(self) -> float | None:
        """The share of successes among the jobs of `last_runs` that are over."""
        over = [run.state for run in self.last_runs if run.state is not None and run.state.terminal]
        return over.count(JobState.SUCCEEDED) / len(over) if over else None


class SchedulesPage(BaseModel):
    """A page of schedules. `next`: pass it as `after`; None: this is the last page."""

    schedules: list[ScheduleSummary]
    next: str | None


class ScheduleDetails(BaseModel):
    """One schedule."""

    summary: ScheduleSummary
    definition: JsonObject  # as in schedule.put, without secrets
    put_at: datetime
    last_nominal_at: datetime | None
    last_fired_at: datetime | None
    waiting: int
    has_times: bool  # False: events make its ticks
    upcoming: list[UpcomingTick]
    calendar: list[TickDay]
    calendar_until: datetime | None  # later ticks are not counted
    calendar_is_cut: bool  # the day of `calendar_until` is counted in part
    calendar_trouble: str  # why there are no ticks to come; empty: nothing went wrong


class TicksPage(BaseModel):
    """A page of a schedule's ticks, the newest first. `next`: pass it as `before`."""

    ticks: list[ListedRun]
    next: datetime | None


# -- lists -------------------------------------------------------------------------------------------------


async def list_schedules(console: Console, query: SchedulesQuery) -> SchedulesPage:
    """List schedules by name, each with its newest runs: one read of schedules, one of their ticks and jobs.

    A state that the store does not know is looked for in a bounded number of rows: a page may be short, and
    have a next one all the same.
    """
    now = await console.now()
    rows, following = await _find(console, query, now)
    runs = await console.store.runs_of([row.name for row in rows], STRIP)
    summaries = [_summary(row, runs[row.name], now, console.masker) for row in rows]
    return SchedulesPage(schedules=summaries, next=following)


async def _find(
    console: Console, query: SchedulesQuery, now: datetime
) -> tuple[list[ScheduleRow], str | None]:
    found: list[ScheduleRow] = []
    after = query.after
    size = query.limit + 1
    for _ in range(_MAX_EXAMINED):
        page = await console.store.list_schedules(_filter(query, after, now, size))
        for row in page:
            if query.state in ("", _state(row, now)):
                if len(found) == query.limit:
                    return found, found[-1].name
                found.append(row)
        if len(page) < size:
            return found, None
        after, size = page[-1].name, 500
    return found, after


def _filter(query: SchedulesQuery, after: str, now: datetime, limit: int) -> ScheduleFilter:
    paused = {"paused": True, "active": False, "overdue": False}.get(query.state)
    return ScheduleFilter(
        text=query.q.lower() or None,
        owner=query.owner or None,
        job_type=query.job_type or None,
        paused=paused,
        due_before=now if query.state == "overdue" else None,
        sleeping=query.state == "over",
        after=after,
        limit=limit,
    )


def _state(row: ScheduleRow, now: datetime) -> ScheduleState:
    if row.paused:
        return "paused"
    if is_over(row, now):
        return "over"
    return "active" if overdue_since(row, now) is None else "overdue"


def _summary(
    row: ScheduleRow, runs: Sequence[ScheduledRun], now: datetime, masker: Masker
) -> ScheduleSummary:
    return ScheduleSummary(
        name=row.name,
        job_type=row.definition.job_type,
        rule=rule_text(row.definition.rule),
        timezone=row.definition.timezone,
        owner=row.definition.owner,
        state=_state(row, now),
        pause_reason=masker.text(row.pause_reason),
        overdue_since=overdue_since(row, now),
        next_at=row.next_at,
        runs=row.runs,
        last_runs=[_run(run, masker) for run in runs],
    )


def _run(run: ScheduledRun, masker: Masker) -> ListedRun:
    decided = run.fired_at or run.decided_at
    return ListedRun(
        nominal_at=run.nominal_at,
        status=run.status,
        reason=masker.text(run.reason),
        late=max(decided - run.due_at, timedelta(0)),
        job_id=run.job_id,
        state=run.state,
        attempt=run.attempt,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )


# -- one schedule ------------------------------------------------------------------------------------------


async def find_schedule_row(console: Console, name: str) -> ScheduleRow:
    """Find a schedule. Raises PageNotFound."""
    row = (await console.store.schedules([name])).get(name)
    if row is None:
        raise PageNotFound(
            f"expected a schedule, got none with the name {name!r:.140}; look in the list of schedules"
        )
    return row


async def read_schedule(console: Console, name: str) -> ScheduleDetails:
    """Read one schedule. Raises PageNotFound."""
    row = await find_schedule_row(console, name)
    now = await console.now()
    runs = await console.store.runs_of([name], STRIP)
    upcoming = await console.calendar.upcoming(row.definition, row.put_at, now)
    return ScheduleDetails(
        summary=_summary(row, runs[name], now, console.masker),
        definition=console.masker.value(row.definition.model_dump(mode="json", exclude_none=True)),
        put_at=row.put_at,
        last_nominal_at=row.last_nominal_at,
        last_fired_at=row.last_fired_at,
        waiting=row.waiting,
        has_times=not isinstance(row.definition.rule, TriggerRule),
        upcoming=upcoming.ticks,
        calendar=upcoming.days,
        calendar_until=upcoming.until,
        calendar_is_cut=upcoming.is_cut,
        calendar_trouble=upcoming.trouble,
    )


async def list_ticks(
    console: Console, name: str, *, before: datetime | None = None, limit: int = 50
) -> TicksPage:
    """List the ticks of a schedule with their reasons and jobs, also of one that was removed."""
    found = (await console.store.runs_of([name], limit + 1, before=before or LAST_TIME))[name]
    following = found[limit - 1].nominal_at if len(found) > limit else None
    return TicksPage(ticks=[_run(run, console.masker) for run in found[:limit]], next=following)


async def read_history(console: Console, name: str) -> list[ListedRun]:
    """The last runs of a schedule, at most 500, the newest first: what its pictures are made of."""
    found = await console.store.runs_of([name], _MAX_HISTORY)
    return [_run(run, console.masker) for run in found[name]]


# -- routes ------------------------------------------------------------------------------------------------


@router.get("/schedules")
async def get_schedules(console: ConsoleOfApp, query: Annotated[SchedulesQuery, Query()]) -> SchedulesPage:
    """List schedules by name, with their newest runs."""
    return await list_schedules(console, query)


@router.get("/schedules/{name}")
async def get_schedule(console: ConsoleOfApp, name: str) -> ScheduleDetails:
    """One schedule, with its ticks to come."""
    return await read_schedule(console, name)


@router.get("/schedules/{name}/ticks")
async def get_ticks(
    console: ConsoleOfApp,
    name: str,
    before: datetime | None = None,
    limit: Annotated[int, Query(ge=1, le=_MAX_TICKS)] = 50,
) -> TicksPage:
    """The history of a schedule's ticks, the newest first."""
    if before is not None and before.tzinfo is None:
        raise BadQuery(f"before: expected a time with its offset, got {before.isoformat()}")
    return await list_ticks(console, name, before=before, limit=limit)

"""The overview: how the whole system goes, now and over a window."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from warrener.web.api import ConsoleOfApp
from warrener.web.api.agents import agent_summary
from warrener.web.api.deploys import DeploySummary, deploy_summaries
from warrener.web.api.job_types import latest_versions, live_counts, series_names
from warrener.web.console import Console
from warrener.web.trends.points import RESOLUTIONS, Resolution, StatisticsWindow, total_of
from warrener.web.trends.reading import (
    DEPLOYS_SHOWN,
    Recent,
    SeriesChoice,
    read_onset,
    read_recent,
    read_series,
)
from warrener.web.trends.summaries import (
    CauseSummary,
    OnsetReport,
    SeriesPoint,
    SeriesSummary,
    causes_of,
    point_of,
    report_of,
    summary_of,
)
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.incidents.rows import IncidentFilter
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead
from warrener_store.schedules.port import LAST_TIME
from warrener_store.statistics.rows import BucketSpan, Deploy, SeriesBucket, SeriesKind

router = APIRouter(tags=["statistics"])

_MAX_CAUSES = 8
_MAX_TYPES = 8
_MAX_ROWS = 5
_MAX_QUEUES = 8
_MAX_ONSETS = 3
_MAX_EXAMINED = 5
_AGENTS_SHOWN = timedelta(hours=1)
_BEHIND = timedelta(minutes=5)
_NOT_OVER = (JobState.RUNNING, JobState.QUEUED, JobState.WAITING, JobState.RETRYING)


class OverviewQuery(BaseModel):
    """The window of the overview."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    window: StatisticsWindow = StatisticsWindow.HOUR


class OverviewType(BaseModel):
    """A job type within the window."""

    name: str
    code_version: str | None
    summary: SeriesSummary
    counts: list[int]  # jobs that ended, over time


class OverviewQueue(BaseModel):
    """A dispatch queue: its jobs that are not over, and the agents that serve it."""

    name: str
    queued: int
    running: int
    oldest: datetime | None  # when the first of its queued jobs was dispatched
    agents: int


class AgentsLine(BaseModel):
    """All agents of the last hour."""

    alive: int
    silent: int
    draining: int
    in_trouble: int
    slots: int  # of alive ones, over all queues that each serves
    free_slots: int
    versions: dict[str, int]  # alive agents by version; empty: not known


class OverviewBreaker(BaseModel):
    """A circuit breaker that is not closed."""

    name: str
    state: BreakerState
    since: datetime
    reason: str


class OverviewIncident(BaseModel):
    """An open incident."""

    fingerprint: str
    kind: str
    subject: str
    job_type: str | None
    times: int
    last_seen_at: datetime


class OverviewDeadLetter(BaseModel):
    """A dead letter that is not dealt with."""

    job_id: UUID
    job_type: str
    fingerprint: str
    error_type: str
    message: str
    died_at: datetime


class TickLine(BaseModel):
    """The next tick of a schedule."""

    schedule: str
    job_type: str
    next_at: datetime


class Overview(BaseModel):
    """The whole system. `complete_until`: jobs that ended before are counted with their durations; later
    ones by number, unless `is_behind`."""

    window: StatisticsWindow
    now: datetime
    complete_until: datetime | None  # None: nothing is counted yet
    is_behind: bool
    summary: SeriesSummary
    points: list[SeriesPoint]
    live: dict[JobState, int]
    onsets: list[OnsetReport]
    causes: list[CauseSummary]
    deploys: list[DeploySummary]
    job_types: list[OverviewType]
    queues: list[OverviewQueue]
    agents: AgentsLine
    breakers: list[OverviewBreaker]
    incidents: list[OverviewIncident]
    dead_letters: list[OverviewDeadLetter]
    ticks: list[TickLine]


class _Now(NamedTuple):
    """The moment and the shared readings of one overview."""

    console: Console
    now: datetime
    resolution: Resolution
    recent: Recent
    counts: list[StateCount]
    names: list[str]

    @property
    def lines(self) -> Resolution:
        """The resolution of lines of a table: a coarser one for a day, with fewer rows."""
        week = RESOLUTIONS[StatisticsWindow.WEEK]
        is_day = self.resolution == RESOLUTIONS[StatisticsWindow.DAY]
        return Resolution(week.span, 24) if is_day else self.resolution


async def read_overview(console: Console, query: OverviewQuery) -> Overview:
    """Read the overview: some hundred rows, however many jobs there are."""
    store, now = console.store, await console.now()
    resolution = RESOLUTIONS[query.window]
    recent, counts = await read_recent(store, now), await store.count_jobs()
    names = series_names(await store.job_types(), counts)
    at = _Now(console, now, resolution, recent, counts, names)
    points = (await read_series(store, SeriesChoice(), resolution, now, recent.ends))[""]
    shown = await _shown_types(at)
    series = await read_series(store, SeriesChoice(SeriesKind.JOB_TYPE, shown), at.lines, now, recent.ends)
    moments = [point.starts_at for point in points]
    cause_buckets = await store.statistics.causes(resolution.span, names, resolution.since(now))
    causes = causes_of(cause_buckets, moments, _MAX_CAUSES, console.masker.text)
    deploys = await store.statistics.deploys(now - DEPLOYS_SHOWN)
    live: Counter[JobState] = Counter()
    for states in live_counts(counts).values():
        live.update(states)
    complete_until = recent.position.complete_until if recent.position.revision else None
    return Overview(
        window=query.window,
        now=now,
        complete_until=complete_until,
        is_behind=await _is_behind(at),
        summary=summary_of(points, now),
        points=[point_of(point) for point in points],
        live={state: live[state] for state in _NOT_OVER},
        onsets=await _onsets(at, causes, series),
        causes=causes,
        deploys=[one for one in deploy_summaries(deploys) if one.first_seen_at >= resolution.since(now)],
        job_types=_type_lines(at, series, deploys),
        queues=await _queue_lines(at),
        agents=await _agents_line(at),
        breakers=await _breaker_lines(at),
        incidents=await _incident_lines(at),
        dead_letters=await _dead_letter_lines(at),
        ticks=await _tick_lines(at),
    )


async def _is_behind(at: _Now) -> bool:
    """True if jobs that ended minutes ago are not counted yet, as at the first start on an old table."""
    position = at.recent.position
    if position.complete_until > at.now - _BEHIND:
        return False
    return bool(await at.console.store.statistics.ended_jobs(position, at.now - _BEHIND, 1))


async def _shown_types(at: _Now) -> Collection[str]:
    """The types to read: all, but for a week those with the most failures and jobs, by its days.

    The fine points of all types would be many: 200 types have 33,600 in a week.
    """
    if at.resolution != RESOLUTIONS[StatisticsWindow.WEEK]:
        return at.names
    days = Resolution(BucketSpan.DAY, 8)
    series = await read_series(
        at.console.store, SeriesChoice(SeriesKind.JOB_TYPE, at.names), days, at.now, at.recent.ends
    )
    totals = {name: total_of(points) for name, points in series.items()}
    ranked = sorted(at.names, key=lambda name: (-totals[name].failed, -totals[name].jobs, name))
    return ranked[:_MAX_TYPES]


async def _onsets(
    at: _Now, causes: Iterable[CauseSummary], series: Mapping[str, Sequence[SeriesBucket]]
) -> list[OnsetReport]:
    """The job types that fail now, of those with the most deaths."""
    failing = list(dict.fromkeys(cause.job_type for cause in causes))[:_MAX_EXAMINED]
    found = [
        await read_onset(at.console.store, name, at.now, known=(at.lines, series[name]))
        for name in failing
        if name in series
    ]
    mask = at.console.masker.text
    reports = [report_of(one, mask) for one in found if one is not None and one.recovered_at is None]
    return sorted(reports, key=lambda one: one.began_at, reverse=True)[:_MAX_ONSETS]


def _type_lines(
    at: _Now, series: Mapping[str, Sequence[SeriesBucket]], deploys: Collection[Deploy]
) -> list[OverviewType]:
    versions = latest_versions(deploys)
    lines = [
        OverviewType(
            name=name,
            code_version=versions.get(name),
            summary=summary_of(points, at.now),
            counts=[point.jobs for point in points],
        )
        for name, points in series.items()
        if any(point.jobs for point in points)
    ]
    return sorted(lines, key=lambda one: (-one.summary.failed, -one.summary.jobs, one.name))[:_MAX_TYPES]


async def _queue_lines(at: _Now) -> list[OverviewQueue]:
    store = at.console.store
    heads: Mapping[str, QueueHead] = {head.queue: head for head in await store.queue_heads()}
    agents = await store.agents(at.now - _AGENTS_SHOWN)
    summaries = [agent_summary(agent, at.now, at.console.masker) for agent in agents]
    alive = Counter(queue for one in summaries if one.state == "alive" for queue in one.queues)
    jobs: Counter[tuple[str, JobState]] = Counter()
    for count in at.counts:
        jobs[count.queue, count.state] += count.jobs
    lines = [
        OverviewQueue(
            name=name,
            queued=jobs[name, JobState.QUEUED],
            running=jobs[name, JobState.RUNNING],
            oldest=heads[name].oldest if name in heads else None,
            agents=alive[name],
        )
        for name in {*heads, *alive, *(queue for queue, _ in jobs)}
    ]
    return sorted(lines, key=lambda one: (-one.queued, -one.running, one.name))[:_MAX_QUEUES]


async def _agents_line(at: _Now) -> AgentsLine:
    agents = await at.console.store.agents(at.now - _AGENTS_SHOWN)
    found = [agent_summary(agent, at.now, at.console.masker) for agent in agents]
    states = Counter(one.state for one in found)
    alive = [one for one in found if one.state == "alive"]
    return AgentsLine(
        alive=states["alive"],
        silent=states["silent"],
        draining=states["draining"],
        in_trouble=states["in trouble"],
        slots=sum(one.slots * len(one.queues) for one in alive),
        free_slots=sum(sum(one.free_slots.values()) for one in alive),
        versions=dict(Counter(one.code_version or "" for one in alive)),
    )


async def _breaker_lines(at: _Now) -> list[OverviewBreaker]:
    mask = at.console.masker.text
    return [
        OverviewBreaker(name=row.name, state=row.state, since=row.since, reason=mask(row.reason))
        for row in await at.console.store.breakers()
        if row.state is not BreakerState.CLOSED
    ][:_MAX_ROWS]


async def _incident_lines(at: _Now) -> list[OverviewIncident]:
    rows = await at.console.store.escalations.incidents(IncidentFilter(limit=_MAX_ROWS))
    return [
        OverviewIncident(
            fingerprint=row.fingerprint,
            kind=row.kind,
            subject=at.console.masker.text(row.subject),
            job_type=row.job_type,
            times=row.times,
            last_seen_at=row.last_seen_at,
        )
        for row in rows
    ]


async def _dead_letter_lines(at: _Now) -> list[OverviewDeadLetter]:
    rows = await at.console.store.dead_letter_store.list_dead_letters(DeadLetterFilter(limit=_MAX_ROWS))
    return [
        OverviewDeadLetter(
            job_id=row.job_id,
            job_type=row.job_type,
            fingerprint=row.fingerprint,
            error_type=row.error.type if row.error else "",
            message=at.console.masker.text((row.error.message if row.error else row.reason)[:200]),
            died_at=row.died_at,
        )
        for row in rows
    ]


async def _tick_lines(at: _Now) -> list[TickLine]:
    rows = await at.console.store.late_schedules(LAST_TIME, LAST_TIME, 4 * _MAX_ROWS)
    ticks = [
        TickLine(schedule=row.name, job_type=row.definition.job_type, next_at=row.next_at)
        for row in rows
        if row.next_at is not None and not row.paused
    ]
    return sorted(ticks, key=lambda one: one.next_at)[:_MAX_ROWS]


@router.get("/overview")
async def get_overview(console: ConsoleOfApp, query: Annotated[OverviewQuery, Query()]) -> Overview:
    """The whole system: throughput, success, failures by cause, lag, and what needs somebody."""
    return await read_overview(console, query)

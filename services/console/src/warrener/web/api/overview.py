"""The overview: how the whole system goes, now and over a window."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from warrener.operations.agents import AgentsQuery, AgentSummary, find_agents
from warrener.operations.breakers import breakers_of
from warrener.operations.needs import Need, read_needs
from warrener.operations.queues import QueueSummary, queues_of
from warrener.operations.schedules import ListedSchedule, list_next
from warrener.web.api import ConsoleOfApp
from warrener.web.api.deploys import DeploySummary, deploy_summaries
from warrener.web.api.job_types import latest_versions, live_counts, series_names
from warrener.web.console import Console
from warrener.web.trends.points import RESOLUTIONS, Resolution, StatisticsWindow, total_of
from warrener.web.trends.reading import (
    DEPLOYS_SHOWN,
    Recent,
    SeriesChoice,
    read_recent,
    read_series,
)
from warrener.web.trends.summaries import (
    CauseSummary,
    SeriesPoint,
    SeriesSummary,
    causes_of,
    point_of,
    summary_of,
)
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import StateCount
from warrener_store.statistics.rows import BucketSpan, Deploy, SeriesBucket, SeriesKind

router = APIRouter(tags=["statistics"])

_MAX_CAUSES = 8
_MAX_TYPES = 8
_MAX_ROWS = 5
_MAX_QUEUES = 8
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


class AgentsLine(BaseModel):
    """All agents of the last hour."""

    alive: int
    silent: int
    draining: int
    in_trouble: int
    slots: int  # of alive ones, over all queues that each serves
    free_slots: int
    versions: dict[str, int]  # alive agents by version; empty: not known


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
    causes: list[CauseSummary]
    deploys: list[DeploySummary]
    job_types: list[OverviewType]
    queues: list[QueueSummary]
    agents: AgentsLine
    needs: list[Need]  # none: all is well
    schedules: list[ListedSchedule]  # with the next ticks


class _Now(NamedTuple):
    """The moment and the shared readings of one overview."""

    console: Console
    now: datetime
    resolution: Resolution
    recent: Recent
    counts: list[StateCount]
    names: list[str]
    agents: list[AgentSummary]  # of the last hour

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
    types, agents = await store.job_types(), await find_agents(console, AgentsQuery())
    names = series_names(types, counts)
    at = _Now(console, now, resolution, recent, counts, names, agents)
    queues = await _read_queues(at)
    breakers = breakers_of(await store.breakers(), types, counts, console.masker).values()
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
        causes=causes,
        deploys=[one for one in deploy_summaries(deploys) if one.first_seen_at >= resolution.since(now)],
        job_types=_type_lines(at, series, deploys),
        queues=queues[:_MAX_QUEUES],
        agents=_agents_line(agents),
        needs=await read_needs(console, breakers, agents, queues),
        schedules=await _next_schedules(at),
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


async def _read_queues(at: _Now) -> list[QueueSummary]:
    heads = await at.console.store.queue_heads()
    served = {queue for one in at.agents if one.state != "silent" for queue in one.queues}
    names = served | {head.queue for head in heads} | {count.queue for count in at.counts}
    return sorted(
        queues_of(names, at.counts, heads, at.agents, {}),
        key=lambda one: (-one.jobs.get(JobState.QUEUED, 0), -one.jobs.get(JobState.RUNNING, 0), one.name),
    )


def _agents_line(found: Collection[AgentSummary]) -> AgentsLine:
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


async def _next_schedules(at: _Now) -> list[ListedSchedule]:
    found = [one for one in await list_next(at.console, 4 * _MAX_ROWS) if one.state == "active"]
    return sorted(found, key=lambda one: one.next_at or at.now)[:_MAX_ROWS]


@router.get("/overview")
async def get_overview(console: ConsoleOfApp, query: Annotated[OverviewQuery, Query()]) -> Overview:
    """The whole system: throughput, success, failures by cause, lag, and what needs somebody."""
    return await read_overview(console, query)

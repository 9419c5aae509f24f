"""The overview: how the whole system goes, now and over a window."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from warrener.operations.agents import AgentsQuery, AgentSummary, find_agents
from warrener.operations.breakers import breakers_of
from warrener.operations.needs import Need, read_needs
from warrener.operations.queues import QueueSummary, queues_of
from warrener.operations.schedules import ListedSchedule, list_next
from warrener.web.api import ConsoleOfApp
from warrener.web.api.deploys import DEPLOYS_SHOWN, DeploySummary, deploy_summaries
from warrener.web.api.job_types import latest_versions, live_counts, series_names
from warrener.web.console import Console
from warrener.web.trends.series import (
    RESOLUTIONS,
    CauseSummary,
    Recent,
    Resolution,
    SeriesPoint,
    SeriesSummary,
    StatisticsWindow,
    causes_of,
    point_of,
    read_recent,
    read_series,
    summary_of,
)
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import StateCount
from warrener_store.statistics.rows import BucketSpan, Deploy, SeriesBucket

router = APIRouter(tags=["statistics"])

_MAX_CAUSES = 8
_MAX_TYPES = 8
_MAX_ROWS = 5
_MAX_QUEUES = 8
_BEHIND = timedelta(minutes=5)
_LINES = {**RESOLUTIONS, StatisticsWindow.DAY: Resolution(BucketSpan.HOUR, 24)}
"""Resolutions of the lines of job types, which are short."""
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


@router.get("/overview")
async def get_overview(console: ConsoleOfApp, query: Annotated[OverviewQuery, Query()]) -> Overview:
    """The whole system: throughput, success, failures by cause, lag, and what needs somebody."""
    store, now = console.store, await console.now()
    resolution = RESOLUTIONS[query.window]
    recent, counts = await read_recent(store, now), await store.count_jobs()
    types, agents = await store.job_types(), await find_agents(console, AgentsQuery())
    names = series_names(types, counts)
    queues = await _read_queues(console, counts, agents)
    breakers = breakers_of(await store.breakers(), types, counts, console.masker).values()
    points = (await read_series(store, None, resolution, recent))[""]
    shown = await _shown_types(console, names, query.window, recent)
    series = await read_series(store, shown, _LINES[query.window], recent)
    moments = [point.starts_at for point in points]
    cause_buckets = await store.statistics.causes(resolution.span, names, resolution.since(now))
    causes = causes_of(cause_buckets, moments, _MAX_CAUSES, console.masker.text)
    deploys = await store.statistics.deploys(now - DEPLOYS_SHOWN)
    live: Counter[JobState] = Counter()
    for states in live_counts(counts).values():
        live.update(states)
    return Overview(
        window=query.window,
        now=now,
        complete_until=recent.position.complete_until if recent.position.revision else None,
        is_behind=await _is_behind(console, recent),
        summary=summary_of(points, now),
        points=[point_of(point) for point in points],
        live={state: live[state] for state in _NOT_OVER},
        causes=causes,
        deploys=[one for one in deploy_summaries(deploys) if one.first_seen_at >= resolution.since(now)],
        job_types=_type_lines(series, deploys, now),
        queues=queues[:_MAX_QUEUES],
        agents=_agents_line(agents),
        needs=await read_needs(console, breakers, agents, queues),
        schedules=await _next_schedules(console, now),
    )


async def _is_behind(console: Console, recent: Recent) -> bool:
    """True if jobs that ended minutes ago are not counted yet, as at the first start on an old table."""
    if recent.position.complete_until > recent.now - _BEHIND:
        return False
    return bool(await console.store.statistics.ended_jobs(recent.position, recent.now - _BEHIND, 1))


async def _shown_types(
    console: Console, names: Collection[str], window: StatisticsWindow, recent: Recent
) -> Collection[str]:
    """The types to read: all, but for a week those with the most failures and jobs, by its days.

    The fine points of all types would be many: 200 types have 33,600 in a week.
    """
    if window is not StatisticsWindow.WEEK:
        return names
    series = await read_series(console.store, names, Resolution(BucketSpan.DAY, 8), recent)
    totals = {name: summary_of(points, recent.now) for name, points in series.items()}
    return sorted(names, key=lambda name: (-totals[name].failed, -totals[name].jobs, name))[:_MAX_TYPES]


def _type_lines(
    series: Mapping[str, Sequence[SeriesBucket]], deploys: Collection[Deploy], now: datetime
) -> list[OverviewType]:
    versions = latest_versions(deploys)
    lines = [
        OverviewType(
            name=name,
            code_version=versions.get(name),
            summary=summary_of(points, now),
            counts=[point.jobs for point in points],
        )
        for name, points in series.items()
        if any(point.jobs for point in points)
    ]
    return sorted(lines, key=lambda one: (-one.summary.failed, -one.summary.jobs, one.name))[:_MAX_TYPES]


async def _read_queues(
    console: Console, counts: Collection[StateCount], agents: Collection[AgentSummary]
) -> list[QueueSummary]:
    heads = await console.store.queue_heads()
    served = {queue for one in agents if one.state != "silent" for queue in one.queues}
    names = served | {head.queue for head in heads} | {count.queue for count in counts}
    return sorted(
        queues_of(names, counts, heads, agents, {}),
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


async def _next_schedules(console: Console, now: datetime) -> list[ListedSchedule]:
    found = [one for one in await list_next(console, 4 * _MAX_ROWS) if one.state == "active"]
    return sorted(found, key=lambda one: one.next_at or now)[:_MAX_ROWS]

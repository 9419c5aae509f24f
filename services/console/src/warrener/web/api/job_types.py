"""Job types: how they go, their versions, and who runs them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from warrener.errors import NothingFound
from warrener.operations.agents import AgentSummary, agent_of
from warrener.web.api import ConsoleOfApp
from warrener.web.api.deploys import DEPLOYS_SHOWN, DeploySummary, deploy_summaries
from warrener.web.console import Console
from warrener.web.trends.series import (
    RESOLUTIONS,
    CauseSummary,
    Resolution,
    SeriesPoint,
    SeriesSummary,
    StatisticsWindow,
    causes_of,
    point_of,
    points_of,
    read_buckets,
    read_recent,
    read_series,
    summary_of,
)
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.agents.rows import JobTypeRow
from warrener_store.jobs.rows import StateCount
from warrener_store.schedules.rows import ScheduleFilter
from warrener_store.statistics.rows import OTHER, BucketSpan, Deploy, SeriesBucket

router = APIRouter(tags=["statistics"])

MAX_LISTED = 200
_LIST = Resolution(BucketSpan.HOUR, 24)
_MAX_CAUSES = 12
_MAX_DEPLOYS = 50
_MAX_SCHEDULES = 20


class JobTypesQuery(BaseModel):
    """The job types to list."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: Annotated[str, Field(max_length=200)] = ""


class JobTypeSummary(BaseModel):
    """A job type over the last day."""

    name: str
    queue: str | None  # None: no agent has announced it, or its announcement was deleted
    description: str
    code_version: str | None  # of its last deploy
    summary: SeriesSummary
    hourly: list[int]  # jobs that ended
    live: dict[JobState, int]  # jobs that are not over


class JobTypesPage(BaseModel):
    """Job types by name."""

    job_types: list[JobTypeSummary]
    is_complete: bool


class JobTypeQuery(BaseModel):
    """The window of a job type's trends."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    window: StatisticsWindow = StatisticsWindow.DAY


class VersionSummary(BaseModel):
    """The jobs of one version within the window."""

    code_version: str  # empty: not known
    summary: SeriesSummary
    first_seen_at: datetime | None
    last_seen_at: datetime | None


class JobTypeDetails(BaseModel):
    """A job type: trends, versions, causes of death, its declaration, and who runs it."""

    name: str
    window: StatisticsWindow
    queue: str | None
    description: str
    guarantee: str | None
    announced_by: str | None
    announced_at: datetime | None
    policy: dict[str, Any] | None
    arguments_schema: dict[str, Any] | None
    result_schema: dict[str, Any] | None
    summary: SeriesSummary
    points: list[SeriesPoint]
    live: dict[JobState, int]
    versions: list[VersionSummary]
    deploys: list[DeploySummary]
    causes: list[CauseSummary]
    agents: list[AgentSummary]
    schedules: list[str]


@router.get("/job-types")
async def get_job_types(console: ConsoleOfApp, query: Annotated[JobTypesQuery, Query()]) -> JobTypesPage:
    """List job types, each with its last day."""
    now, store = await console.now(), console.store
    declared, counts = await store.job_types(), await store.count_jobs()
    names = declared.keys() | {count.job_type for count in counts}
    chosen = sorted(name for name in names if query.q.lower() in name.lower())
    listed = chosen[:MAX_LISTED]
    points = await read_series(store, listed, _LIST, await read_recent(store, now))
    versions = latest_versions(await store.statistics.deploys(now - DEPLOYS_SHOWN))
    live = live_counts(counts)

    def summary(name: str, row: JobTypeRow | None) -> JobTypeSummary:
        return JobTypeSummary(
            name=name,
            queue=None if row is None else row.queue,
            description="" if row is None else row.description,
            code_version=versions.get(name),
            summary=summary_of(points[name], now),
            hourly=[point.jobs for point in points[name]],
            live=live[name],
        )

    return JobTypesPage(
        job_types=[summary(name, declared.get(name)) for name in listed],
        is_complete=len(chosen) <= MAX_LISTED,
    )


def latest_versions(deploys: Iterable[Deploy]) -> dict[str, str]:
    """The version of the last deploy of each job type."""
    ordered = sorted(deploys, key=lambda one: one.first_seen_at)
    return {one.job_type: one.code_version for one in ordered}


def live_counts(counts: Iterable[StateCount]) -> dict[str, dict[JobState, int]]:
    """The jobs of each type that are not over, by state."""
    found: dict[str, Counter[JobState]] = defaultdict(Counter)
    for count in counts:
        if count.state not in TERMINAL and count.jobs > 0:
            found[count.job_type][count.state] += count.jobs
    return defaultdict(dict, {name: dict(states) for name, states in found.items()})


@router.get("/job-types/{name:path}")
async def get_job_type(
    console: ConsoleOfApp, name: str, query: Annotated[JobTypeQuery, Query()]
) -> JobTypeDetails:
    """One job type: trends, versions and causes of death."""
    now, store = await console.now(), console.store
    resolution = RESOLUTIONS[query.window]
    row = (await store.job_types([name])).get(name)
    counts = [count for count in await store.count_jobs() if count.job_type == name]
    buckets = await read_buckets(store, [name], resolution, now)
    if row is None and not counts and not buckets:
        raise NothingFound(
            f"expected a job type, got none with the name {name!r:.140}; look in the list of job types"
        )
    points = points_of(buckets, [name], resolution, await read_recent(store, now))[name]
    deploys = await store.statistics.deploys(now - DEPLOYS_SHOWN, [name], _MAX_DEPLOYS)
    causes = await store.statistics.causes(resolution.span, [name], resolution.since(now))
    schedules = await store.list_schedules(ScheduleFilter(job_type=name, limit=_MAX_SCHEDULES))
    return JobTypeDetails(
        name=name,
        window=query.window,
        queue=None if row is None else row.queue,
        description="" if row is None else row.description,
        guarantee=None if row is None else row.guarantee.value,
        announced_by=None if row is None else row.announced_by,
        announced_at=None if row is None else row.announced_at,
        policy=None if row is None else row.policy.model_dump(mode="json"),
        arguments_schema=None if row is None else row.arguments_schema,
        result_schema=None if row is None else row.result_schema,
        summary=summary_of(points, now),
        points=[point_of(point) for point in points],
        live=live_counts(counts)[name],
        versions=_versions(buckets, deploys, now),
        deploys=deploy_summaries(deploys),
        causes=causes_of(causes, [point.starts_at for point in points], _MAX_CAUSES, console.masker.text),
        agents=await _agents(console, name, None if row is None else row.queue, now),
        schedules=[schedule.name for schedule in schedules],
    )


def _versions(
    buckets: Iterable[SeriesBucket], deploys: Collection[Deploy], now: datetime
) -> list[VersionSummary]:
    groups: dict[str, list[SeriesBucket]] = defaultdict(list)
    for bucket in buckets:
        groups[bucket.code_version].append(bucket)
    seen: dict[str, list[Deploy]] = defaultdict(list)
    for deploy in deploys:
        seen[deploy.code_version].append(deploy)
    found = [
        VersionSummary(
            code_version=version,
            summary=summary_of(group, now),
            first_seen_at=min((one.first_seen_at for one in seen[version]), default=None),
            last_seen_at=max((one.last_seen_at for one in seen[version]), default=None),
        )
        for version, group in groups.items()
    ]
    return sorted(
        found, key=lambda one: (one.first_seen_at is not None, one.first_seen_at or now), reverse=True
    )


async def _agents(console: Console, name: str, queue: str | None, now: datetime) -> list[AgentSummary]:
    agents = await console.store.agents(now - _LIST.span.length)
    return [
        agent_of(agent, now, console.masker)
        for agent in agents
        if (name in agent.job_types if agent.job_types is not None else queue in agent.queues)
    ]


def series_names(declared: Collection[str], counts: Iterable[StateCount]) -> list[str]:
    """The job types that may have a series."""
    return sorted({*declared, *(count.job_type for count in counts), OTHER})

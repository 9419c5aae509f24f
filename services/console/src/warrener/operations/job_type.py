"""One job type: its trends over a window, versions, causes of death, and who runs it."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from pydantic import BaseModel

from warrener.errors import NothingFound
from warrener.operations.agents import AgentSummary, agent_of
from warrener.operations.job_types import (
    DEPLOYS_SHOWN,
    DeclaredJobType,
    DeploySummary,
    declared_fields,
    deploy_summaries,
    live_counts,
)
from warrener.operations.noun import Backend, NounQuery
from warrener.operations.series import (
    RESOLUTIONS,
    CauseSummary,
    SeriesPoint,
    SeriesSummary,
    StatisticsWindow,
    causes_of,
    point_of,
    points_of,
    read_buckets,
    read_recent,
    summary_of,
)
from warrener_store.schedules.rows import ScheduleFilter
from warrener_store.statistics.rows import Deploy, SeriesBucket

_MAX_CAUSES = 12
_MAX_DEPLOYS = 50
_MAX_SCHEDULES = 20
_AGENTS_SHOWN = timedelta(hours=1)  # since their last heartbeat


class JobTypeQuery(NounQuery):
    """The window of a job type's trends."""

    window: StatisticsWindow = StatisticsWindow.DAY


class VersionSummary(BaseModel):
    """The jobs of one version within the window."""

    code_version: str  # empty: not known
    summary: SeriesSummary
    first_seen_at: datetime | None
    last_seen_at: datetime | None


class JobTypeDetails(DeclaredJobType):
    """A job type: trends, versions, causes of death, its declaration, and who runs it."""

    window: StatisticsWindow
    points: list[SeriesPoint]
    versions: list[VersionSummary]
    deploys: list[DeploySummary]
    causes: list[CauseSummary]
    agents: list[AgentSummary]
    schedules: list[str]


async def read_job_type(backend: Backend, name: str, window: StatisticsWindow) -> JobTypeDetails:
    now, store = await backend.now(), backend.store
    resolution = RESOLUTIONS[window]
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
    queue = None if row is None else row.queue
    return JobTypeDetails(
        **declared_fields(name, row),
        window=window,
        summary=summary_of(points, now),
        points=[point_of(point) for point in points],
        live=live_counts(counts)[name],
        versions=_versions(buckets, deploys, now),
        deploys=deploy_summaries(deploys),
        causes=causes_of(causes, [point.starts_at for point in points], _MAX_CAUSES, backend.masker.text),
        agents=[
            agent_of(agent, now, backend.masker)
            for agent in await store.agents(now - _AGENTS_SHOWN)
            if (name in agent.job_types if agent.job_types is not None else queue in agent.queues)
        ],
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

"""One job type: its trends over a window, versions, causes of death, and who runs it."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from pydantic import BaseModel

from warrener.errors import NothingFound
from warrener.operations import job_types, series
from warrener.operations.agents import AgentSummary, agent_of
from warrener.operations.noun import Backend, NounQuery
from warrener_store.schedules.rows import ScheduleFilter
from warrener_store.statistics.rows import Deploy, SeriesBucket

_MAX_CAUSES = 12
_MAX_DEPLOYS = 50
_MAX_SCHEDULES = 20
_AGENTS_SHOWN = timedelta(hours=1)  # since their last heartbeat


class JobTypeQuery(NounQuery):
    """The window of a job type's trends."""

    window: series.StatisticsWindow = series.StatisticsWindow.DAY


class VersionSummary(BaseModel):
    """The jobs of one version within the window."""

    code_version: str  # empty: not known
    summary: series.SeriesSummary
    first_seen_at: datetime | None
    last_seen_at: datetime | None


class JobTypeDetails(job_types.DeclaredJobType):
    """A job type: trends, versions, causes of death, its declaration, and who runs it."""

    window: series.StatisticsWindow
    points: list[series.SeriesPoint]
    versions: list[VersionSummary]
    deploys: list[job_types.DeploySummary]
    causes: list[series.CauseSummary]
    agents: list[AgentSummary]
    schedules: list[str]


async def read_job_type(backend: Backend, name: str, window: series.StatisticsWindow) -> JobTypeDetails:
    now, store, masker = await backend.now(), backend.store, await backend.learn()
    resolution = series.RESOLUTIONS[window]
    row = (await store.job_types([name])).get(name)
    counts = [count for count in await store.count_jobs() if count.job_type == name]
    buckets = await series.read_buckets(store, [name], resolution, now)
    if row is None and not counts and not buckets:
        raise NothingFound(
            f"expected a job type, got none with the name {name!r:.140}; look in the list of job types"
        )
    points = series.points_of(buckets, [name], resolution, await series.read_recent(store, now))[name]
    deploys = await store.statistics.deploys(now - job_types.DEPLOYS_SHOWN, [name], _MAX_DEPLOYS)
    causes = await store.statistics.causes(resolution.span, [name], resolution.since(now))
    schedules = await store.list_schedules(ScheduleFilter(job_type=name, limit=_MAX_SCHEDULES))
    queue = None if row is None else row.queue
    return JobTypeDetails(
        **job_types.declared_fields(name, row),
        window=window,
        summary=series.summary_of(points, now),
        points=[series.point_of(point) for point in points],
        live=job_types.live_counts(counts)[name],
        versions=_versions(buckets, deploys, now),
        deploys=job_types.deploy_summaries(deploys),
        causes=series.causes_of(causes, [point.starts_at for point in points], _MAX_CAUSES, masker),
        agents=[
            agent_of(agent, now, masker.every)
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
            summary=series.summary_of(group, now),
            first_seen_at=min((one.first_seen_at for one in seen[version]), default=None),
            last_seen_at=max((one.last_seen_at for one in seen[version]), default=None),
        )
        for version, group in groups.items()
    ]
    return sorted(
        found, key=lambda one: (one.first_seen_at is not None, one.first_seen_at or now), reverse=True
    )

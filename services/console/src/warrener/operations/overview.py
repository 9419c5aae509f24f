"""The overview: how the whole system goes, now and over a window, and the troubles that need a person."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import BaseModel, Field

from warrener.operations import job_types, series
from warrener.operations.agents import AgentsQuery, AgentSummary, find_agents
from warrener.operations.breakers import Breaker, breakers_of, paused_queues
from warrener.operations.dead_letters import CausesQuery, list_causes
from warrener.operations.incidents import IncidentsQuery, list_incidents
from warrener.operations.noun import Backend, NounQuery
from warrener.operations.queues import QueueSummary, queues_of
from warrener.operations.schedules import ListedSchedule, list_next, list_overdue
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import StateCount
from warrener_store.statistics.rows import BucketSpan, Deploy, SeriesBucket

_MAX_CAUSES = 8
_MAX_TYPES = 8
_MAX_ROWS = 5
_MAX_QUEUES = 8
_BEHIND = timedelta(minutes=5)
_LINES = {**series.RESOLUTIONS, series.StatisticsWindow.DAY: series.Resolution(BucketSpan.HOUR, 24)}
"""Resolutions of the lines of job types, which are short."""
_NOT_OVER = (JobState.RUNNING, JobState.QUEUED, JobState.WAITING, JobState.RETRYING, JobState.SUSPENDED)
_MAX_SHOWN, _MAX_COUNTED, _MAX_NEEDED_CAUSES = 3, 1000, 100  # troubles of a kind


class NeedKind(StrEnum):
    """The kinds of trouble, in the order of a page."""

    BREAKERS = "breakers"
    INCIDENTS = "incidents"
    QUEUES = "queues"
    AGENTS = "agents"
    SCHEDULES = "schedules"
    DEAD_LETTERS = "dead_letters"


class NeedSubject(BaseModel):
    """One trouble: a breaker, an incident, a queue, an agent, a schedule, or a cause of dead letters."""

    key: str = Field(description="Its name, or its fingerprint.")
    name: str
    detail: str
    since: datetime | None
    count: int = Field(description="1; of a cause: its dead letters.")


class Need(BaseModel):
    """All troubles of a kind. `is_counted`: False if there are more than `count`."""

    kind: NeedKind
    count: int
    is_counted: bool
    since: datetime | None
    subjects: list[NeedSubject] = Field(description="The first of them.")


class OverviewQuery(NounQuery):
    """The window of the overview."""

    window: series.StatisticsWindow = series.StatisticsWindow.HOUR


class OverviewType(BaseModel):
    """A job type within the window."""

    name: str
    code_version: str | None
    summary: series.SeriesSummary
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

    window: series.StatisticsWindow
    now: datetime
    complete_until: datetime | None  # None: nothing is counted yet
    is_behind: bool
    summary: series.SeriesSummary
    points: list[series.SeriesPoint]
    live: dict[JobState, int]
    causes: list[series.CauseSummary]
    deploys: list[job_types.DeploySummary]
    job_types: list[OverviewType]
    queues: list[QueueSummary]
    agents: AgentsLine
    needs: list[Need]  # none: all is well
    schedules: list[ListedSchedule]  # with the next ticks


async def read_overview(backend: Backend, query: OverviewQuery) -> Overview:
    """The whole system: throughput, success, failures by cause, lag, and what needs somebody."""
    store, now, masker = backend.store, await backend.now(), await backend.learn()
    resolution = series.RESOLUTIONS[query.window]
    recent, counts = await series.read_recent(store, now), await store.count_jobs()
    types, agents = await store.job_types(), await find_agents(backend, AgentsQuery())
    names = job_types.series_names(types, counts)
    breakers = breakers_of(await store.breakers(), types, counts, masker.every).values()
    queues = await _read_queues(backend, counts, agents, paused_queues(breakers))
    points = (await series.read_series(store, None, resolution, recent))[""]
    shown = await _shown_types(backend, names, query.window, recent)
    trends = await series.read_series(store, shown, _LINES[query.window], recent)
    moments = [point.starts_at for point in points]
    cause_buckets = await store.statistics.causes(resolution.span, names, resolution.since(now))
    causes = series.causes_of(cause_buckets, moments, _MAX_CAUSES, masker)
    deploys = await store.statistics.deploys(now - job_types.DEPLOYS_SHOWN)
    live: Counter[JobState] = Counter()
    for states in job_types.live_counts(counts).values():
        live.update(states)
    return Overview(
        window=query.window,
        now=now,
        complete_until=recent.position.complete_until if recent.position.revision else None,
        is_behind=await _is_behind(backend, recent),
        summary=series.summary_of(points, now),
        points=[series.point_of(point) for point in points],
        live={state: live[state] for state in _NOT_OVER},
        causes=causes,
        deploys=[
            one for one in job_types.deploy_summaries(deploys) if one.first_seen_at >= resolution.since(now)
        ],
        job_types=_type_lines(trends, deploys, now),
        queues=queues[:_MAX_QUEUES],
        agents=_agents_line(agents),
        needs=await read_needs(backend, breakers, agents, queues),
        schedules=sorted(
            (one for one in await list_next(backend, 4 * _MAX_ROWS) if one.state == "active"),
            key=lambda one: one.next_at or now,
        )[:_MAX_ROWS],
    )


async def _is_behind(backend: Backend, recent: series.Recent) -> bool:
    """True if jobs that ended minutes ago are not counted yet, as at the first start on an old table."""
    if recent.position.complete_until > recent.now - _BEHIND:
        return False
    return bool(await backend.store.statistics.ended_jobs(recent.position, recent.now - _BEHIND, 1))


async def _shown_types(
    backend: Backend, names: Collection[str], window: series.StatisticsWindow, recent: series.Recent
) -> Collection[str]:
    """The types to read: all, but for a week those with the most failures and jobs, by its days.

    The fine points of all types would be many: 200 types have 33,600 in a week.
    """
    if window is not series.StatisticsWindow.WEEK:
        return names
    trends = await series.read_series(backend.store, names, series.Resolution(BucketSpan.DAY, 8), recent)
    totals = {name: series.summary_of(points, recent.now) for name, points in trends.items()}
    return sorted(names, key=lambda name: (-totals[name].failed, -totals[name].jobs, name))[:_MAX_TYPES]


def _type_lines(
    trends: Mapping[str, Sequence[SeriesBucket]], deploys: Collection[Deploy], now: datetime
) -> list[OverviewType]:
    versions = job_types.latest_versions(deploys)
    lines = [
        OverviewType(
            name=name,
            code_version=versions.get(name),
            summary=series.summary_of(points, now),
            counts=[point.jobs for point in points],
        )
        for name, points in trends.items()
        if any(point.jobs for point in points)
    ]
    return sorted(lines, key=lambda one: (-one.summary.failed, -one.summary.jobs, one.name))[:_MAX_TYPES]


async def _read_queues(
    backend: Backend,
    counts: Collection[StateCount],
    agents: Collection[AgentSummary],
    paused: Collection[str],
) -> list[QueueSummary]:
    heads = await backend.store.queue_heads()
    served = {queue for one in agents if one.state != "silent" for queue in one.queues}
    names = served | {head.queue for head in heads} | {count.queue for count in counts}
    return sorted(
        queues_of(names, counts, heads, agents, {}, paused=paused),
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


# -- troubles ----------------------------------------------------------------------------------------------


async def read_needs(
    backend: Backend,
    breakers: Iterable[Breaker],
    agents: Iterable[AgentSummary],
    queues: Iterable[QueueSummary],
) -> list[Need]:
    """Read the troubles that nobody has acknowledged: of these breakers, agents and queues, and all others.

    A closed breaker, an agent that was drained before it ended and a queue with an agent are no trouble.
    """
    raised = await list_incidents(backend, IncidentsQuery(limit=_MAX_COUNTED))
    overdue = await list_overdue(backend, _MAX_COUNTED)
    causes = (await list_causes(backend, CausesQuery(limit=_MAX_NEEDED_CAUSES))).causes
    found = {
        NeedKind.BREAKERS: [
            _subject(one.name, one.since, one.reason)
            for one in breakers
            if one.state is not BreakerState.CLOSED
        ],
        NeedKind.INCIDENTS: [
            _subject(one.fingerprint, one.first_seen_at, one.text, name=f"{one.kind} of {one.about}")
            for one in raised.incidents
            if one.state in ("open", "failing")
        ],
        NeedKind.QUEUES: [
            _subject(one.name, one.oldest, f"jobs that are not over: {one.live:,}")
            for one in queues
            if one.lacks_agents
        ],
        NeedKind.AGENTS: [
            _subject(one.agent_id, one.last_seen_at, f"{one.host}, jobs that it ran: {one.running}")
            for one in agents
            if one.state == "silent" and not one.draining
        ],
        NeedKind.SCHEDULES: [
            _subject(one.name, one.overdue_since, f"{one.rule} → {one.job_type}") for one in overdue
        ],
        NeedKind.DEAD_LETTERS: [
            _subject(one.fingerprint, one.first_died_at, one.why, one.job_type, one.dead_letters)
            for one in causes
        ],
    }
    all_counted = len(causes) < _MAX_NEEDED_CAUSES and all(one.is_counted for one in causes)
    is_counted = {
        NeedKind.INCIDENTS: raised.next is None,
        NeedKind.SCHEDULES: len(overdue) < _MAX_COUNTED,
        NeedKind.DEAD_LETTERS: all_counted,
    }
    return [
        Need(
            kind=kind,
            count=sum(one.count for one in subjects),
            is_counted=is_counted.get(kind, True),
            since=min((one.since for one in subjects if one.since is not None), default=None),
            subjects=subjects[:_MAX_SHOWN],
        )
        for kind, subjects in found.items()
        if subjects
    ]


def _subject(key: str, since: datetime | None, detail: str, name: str = "", count: int = 1) -> NeedSubject:
    return NeedSubject(key=key, name=name or key, detail=detail, since=since, count=count)

"""Read series, causes and deploys from the store, for pages and the API."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from warrener.web.trends.failure_onset import (
    MIN_FAILED,
    FailureOnset,
    FirstDeath,
    ScheduleChange,
    explain_onset,
)
from warrener.web.trends.points import (
    RESOLUTIONS,
    Resolution,
    StatisticsWindow,
    add_recent,
    fill_gaps,
    join_versions,
)
from warrener_store import Store
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.schedules.rows import ScheduleFilter
from warrener_store.statistics.rows import (
    BucketSpan,
    Deploy,
    RecentEnds,
    RollupPosition,
    SeriesBucket,
    SeriesKind,
    SeriesQuery,
)

DEPLOYS_SHOWN = timedelta(days=90)
_MAX_RECENT = timedelta(minutes=3)
"""Age of jobs that are counted by themselves; older ones are in buckets, or will be soon."""
_MAX_DEPLOYS = 200
_MAX_SCHEDULES = 50
_ONSET_RESOLUTIONS = (
    Resolution(BucketSpan.MINUTE, 300),
    RESOLUTIONS[StatisticsWindow.DAY],
    RESOLUTIONS[StatisticsWindow.WEEK],
)


class Recent(NamedTuple):
    """The jobs that are not in buckets yet, and how far these are complete."""

    ends: list[RecentEnds]
    position: RollupPosition


async def read_recent(store: Store, now: datetime) -> Recent:
    """Count the newest ends, which are not in the buckets."""
    position = await store.statistics.rollup_position()
    since = max(position.finished_at, now - _MAX_RECENT)
    return Recent(await store.statistics.recent_ends(since), position)


class SeriesChoice(NamedTuple):
    """The series to read: job types, or schedules; ALL has one without a name."""

    kind: SeriesKind = SeriesKind.ALL
    names: Collection[str] = ("",)


async def read_series(
    store: Store,
    which: SeriesChoice,
    resolution: Resolution,
    now: datetime,
    recent: Sequence[RecentEnds] = (),
) -> dict[str, list[SeriesBucket]]:
    """Read the points of these series, without gaps. Series of schedules have no recent ends."""
    query = SeriesQuery(span=resolution.span, kind=which.kind, names=which.names, since=resolution.since(now))
    return points_of(await store.statistics.series(query), which, resolution, now, recent)


def points_of(
    buckets: Iterable[SeriesBucket],
    which: SeriesChoice,
    resolution: Resolution,
    now: datetime,
    recent: Sequence[RecentEnds] = (),
) -> dict[str, list[SeriesBucket]]:
    """Make the points of series from their buckets."""
    kind, names = which
    found: dict[str, list[SeriesBucket]] = defaultdict(list)
    for bucket in join_versions(buckets):
        found[bucket.name].append(bucket)
    points = {name: fill_gaps(found[name], resolution, now, kind, name) for name in names}
    if not recent or kind is SeriesKind.SCHEDULE:
        return points
    return {
        name: add_recent(each, [one for one in recent if kind is SeriesKind.ALL or one.job_type == name])
        for name, each in points.items()
    }


async def read_schedule_trend(
    store: Store, schedule: str, window: StatisticsWindow, now: datetime
) -> list[SeriesBucket]:
    """Read the points of a schedule, whose jobs may be deleted already."""
    which = SeriesChoice(SeriesKind.SCHEDULE, [schedule])
    return (await read_series(store, which, RESOLUTIONS[window], now))[schedule]


async def read_onset(
    store: Store,
    job_type: str,
    now: datetime,
    deploys: Collection[Deploy] | None = None,
    known: tuple[Resolution, Sequence[SeriesBucket]] | None = None,
) -> FailureOnset | None:
    """Explain when a job type began to fail, within the last week; the finest resolution that shows it.

    One that is over is returned only if none lasts. `known`: points that were read already.
    """
    if deploys is None:
        deploys = await store.statistics.deploys(now - DEPLOYS_SHOWN, [job_type], _MAX_DEPLOYS)
    over: FailureOnset | None = None
    for resolution in _ONSET_RESOLUTIONS:
        if known is not None and _has_too_few_failures(*known, resolution, now):
            continue
        if known is not None and known[0] == resolution:
            points = known[1]
        else:
            which = SeriesChoice(SeriesKind.JOB_TYPE, [job_type])
            points = (await read_series(store, which, resolution, now))[job_type]
        found = await _find(store, job_type, points, resolution.since(now), deploys)
        if found is not None and found.recovered_at is None:
            return found
        over = over or found
    return over


def _has_too_few_failures(
    resolution: Resolution, points: Sequence[SeriesBucket], wanted: Resolution, now: datetime
) -> bool:
    """True if the points cover the wanted time, and no onset can be in it."""
    since = wanted.since(now)
    if resolution.since(now) > since:
        return False
    inside = (point.failed for point in points if point.starts_at + resolution.span.length > since)
    return sum(inside) < MIN_FAILED


async def _find(
    store: Store,
    job_type: str,
    points: Sequence[SeriesBucket],
    since: datetime,
    deploys: Collection[Deploy],
) -> FailureOnset | None:
    if not any(point.failed for point in points):
        return None
    causes = await store.statistics.causes(points[0].span, [job_type], since)
    found = explain_onset(job_type, points, deploys=deploys, causes=causes)
    if found is None:
        return None
    schedules = await store.list_schedules(ScheduleFilter(job_type=job_type, limit=_MAX_SCHEDULES))
    return explain_onset(
        job_type,
        points,
        deploys=deploys,
        causes=causes,
        first_deaths=await _first_deaths(store, found),
        schedule_changes=[ScheduleChange(schedule=row.name, at=row.put_at) for row in schedules],
    )


async def _first_deaths(store: Store, found: FailureOnset) -> list[FirstDeath]:
    """The first stored death of the cause that is named."""
    if found.cause is None:
        return []
    which = DeadLetterFilter(fingerprint=found.cause.fingerprint, oldest_first=True, limit=1)
    dead = await store.dead_letter_store.list_dead_letters(which)
    return [FirstDeath(fingerprint=one.fingerprint, at=one.died_at) for one in dead]

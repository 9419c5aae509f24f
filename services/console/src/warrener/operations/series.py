"""Series of ended jobs over a window of time: read without gaps, and summed up as the API answers them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel

from warrener.operations.noun import fields_from
from warrener_contracts.state_machine import JobState
from warrener_store.statistics import rows
from warrener_store.statistics.histogram import percentile
from warrener_store.statistics.rollup import add_buckets

if TYPE_CHECKING:
    from warrener.operations.masking import Masker
    from warrener_store import Store

_MAX_RECENT = timedelta(minutes=3)
"""Age of jobs that are counted by themselves; older ones are in buckets, or will be soon."""
_ENDS = ("succeeded", "dead", "cancelled", "expired")


class StatisticsWindow(StrEnum):
    """The time that a page shows, until now."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The buckets of a window: their length and number."""

    span: rows.BucketSpan
    count: int

    def since(self, now: datetime) -> datetime:
        """The beginning of the first bucket; the last one has `now` in it."""
        return self.span.floor(now) - self.span.length * (self.count - 1)


RESOLUTIONS: Mapping[StatisticsWindow, Resolution] = MappingProxyType(
    {
        StatisticsWindow.HOUR: Resolution(rows.BucketSpan.MINUTE, 60),
        StatisticsWindow.DAY: Resolution(rows.BucketSpan.TEN_MINUTES, 144),
        StatisticsWindow.WEEK: Resolution(rows.BucketSpan.HOUR, 168),
    }
)


# -- points ------------------------------------------------------------------------------------------------


class Recent(NamedTuple):
    """The moment of a reading, the jobs that are not in buckets yet, and how far these are complete."""

    now: datetime
    ends: list[rows.RecentEnds]
    position: rows.RollupPosition


async def read_recent(store: "Store", now: datetime) -> Recent:
    """Count the newest ends, which are not in the buckets."""
    position = await store.statistics.rollup_position()
    since = max(position.finished_at, now - _MAX_RECENT)
    return Recent(now, await store.statistics.recent_ends(since), position)


async def read_buckets(
    store: "Store", names: Collection[str] | None, resolution: Resolution, now: datetime
) -> list[rows.SeriesBucket]:
    """Read the buckets of these job types within the window, by version; None: of all jobs together."""
    kind, shown = (rows.SeriesKind.ALL, ("",)) if names is None else (rows.SeriesKind.JOB_TYPE, names)
    since = resolution.since(now)
    query = rows.SeriesQuery(span=resolution.span, kind=kind, names=shown, since=since)
    return list(await store.statistics.series(query))


async def read_series(
    store: "Store", names: Collection[str] | None, resolution: Resolution, recent: Recent
) -> dict[str, list[rows.SeriesBucket]]:
    """Read the points of these job types; None: of all jobs together, whose name is empty."""
    return points_of(await read_buckets(store, names, resolution, recent.now), names, resolution, recent)


def points_of(
    buckets: Iterable[rows.SeriesBucket],
    names: Collection[str] | None,
    resolution: Resolution,
    recent: Recent,
) -> dict[str, list[rows.SeriesBucket]]:
    """Make one point for each moment of the window, of all versions, with the ends that are in no bucket by
    their number alone."""
    kind, shown = (rows.SeriesKind.ALL, ("",)) if names is None else (rows.SeriesKind.JOB_TYPE, names)
    span = resolution.span
    known: dict[tuple[str, datetime], list[rows.SeriesBucket]] = defaultdict(list)
    for bucket in buckets:
        known[bucket.name, bucket.starts_at].append(bucket)
    ends: dict[tuple[str, datetime], Counter[JobState]] = defaultdict(Counter)
    for one in recent.ends:
        ends["" if names is None else one.job_type, span.floor(one.minute)][one.state] += one.jobs

    def point(name: str, moment: datetime) -> rows.SeriesBucket:
        group = known.get((name, moment), ())
        found = _sum(group) if group else rows.SeriesBucket(span=span, kind=kind, name=name, starts_at=moment)
        if new := ends.get((name, moment)):
            return replace(found, **{end: getattr(found, end) + new[JobState(end)] for end in _ENDS})
        return found

    since = resolution.since(recent.now)
    moments = [since + span.length * number for number in range(resolution.count)]
    return {name: [point(name, moment) for moment in moments] for name in shown}


def _sum(buckets: Sequence[rows.SeriesBucket]) -> rows.SeriesBucket:
    """Add buckets up. There must be one; one that is alone stays as it is."""
    first = buckets[0]
    return first if len(buckets) == 1 else add_buckets(first.key._replace(code_version=""), buckets)


# -- summaries ---------------------------------------------------------------------------------------------


class SeriesPoint(BaseModel):
    """The jobs that ended from a moment on until the next point. Times are seconds."""

    starts_at: datetime
    succeeded: int
    dead: int
    cancelled: int
    expired: int
    failed_attempts: int
    lost_attempts: int
    p50: float | None
    p95: float | None
    queue_p95: float | None

    @property
    def failed(self) -> int:
        return self.dead + self.expired


class SeriesSummary(BaseModel):
    """A series over the whole window. Durations and queue times are those of successful attempts, in
    seconds."""

    jobs: int
    succeeded: int
    failed: int  # dead or expired
    cancelled: int
    success: float | None  # share of those that succeeded or failed
    failed_attempts: int
    lost_attempts: int
    p50: float | None
    p95: float | None
    longest: float | None
    queue_p50: float | None
    queue_p95: float | None
    per_second: float


class CauseSummary(BaseModel):
    """The deaths of a job type from one cause within the window."""

    job_type: str
    fingerprint: str  # empty: all rare causes
    error_type: str
    message: str
    jobs: int
    first_at: datetime  # beginnings of buckets
    last_at: datetime
    counts: list[int]  # over time


def point_of(bucket: rows.SeriesBucket) -> SeriesPoint:
    return SeriesPoint(
        **fields_from(SeriesPoint, bucket),
        p50=percentile(bucket.durations, 0.5),
        p95=percentile(bucket.durations, 0.95),
        queue_p95=percentile(bucket.queue_times, 0.95),
    )


def summary_of(points: Sequence[rows.SeriesBucket], now: datetime) -> SeriesSummary:
    """Sum the points of a series up. There must be one."""
    total = _sum(points)
    judged, seconds = total.succeeded + total.failed, (now - points[0].starts_at) / timedelta(seconds=1)
    return SeriesSummary(
        **fields_from(SeriesSummary, total),
        success=total.succeeded / judged if judged else None,
        p50=percentile(total.durations, 0.5),
        p95=percentile(total.durations, 0.95),
        longest=total.duration_max or None,
        queue_p50=percentile(total.queue_times, 0.5),
        queue_p95=percentile(total.queue_times, 0.95),
        per_second=total.jobs / max(seconds, 1.0),
    )


def causes_of(
    buckets: Iterable[rows.CauseBucket], moments: Sequence[datetime], limit: int, masker: "Masker"
) -> list[CauseSummary]:
    """Sum causes up over the window, the most deaths first. `moments`: the points of the window."""
    groups: dict[tuple[str, str], list[rows.CauseBucket]] = defaultdict(list)
    for bucket in buckets:
        groups[bucket.job_type, bucket.fingerprint].append(bucket)
    found: list[CauseSummary] = []
    for (job_type, fingerprint), group in groups.items():
        deaths = Counter[datetime]()
        for one in group:
            deaths[one.starts_at] += one.jobs
        newest = max(group, key=lambda one: one.starts_at)
        found.append(
            CauseSummary(
                job_type=job_type,
                fingerprint=fingerprint,
                error_type=newest.error_type,
                message=masker.of(job_type).text(newest.message),
                jobs=deaths.total(),
                first_at=min(deaths),
                last_at=newest.starts_at,
                counts=[deaths[moment] for moment in moments],
            )
        )
    return sorted(found, key=lambda one: (-one.jobs, one.job_type, one.fingerprint))[:limit]

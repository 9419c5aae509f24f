"""Series and causes as the API answers them. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from pydantic import BaseModel

from warrener.operations.noun import fields_from
from warrener.web.trends.points import total_of
from warrener_store.statistics.histogram import percentile
from warrener_store.statistics.rows import CauseBucket, SeriesBucket


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
        """Jobs that ended badly: dead, or expired."""
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


def point_of(bucket: SeriesBucket) -> SeriesPoint:
    """Make the point of a bucket."""
    return SeriesPoint(
        **fields_from(SeriesPoint, bucket),
        p50=percentile(bucket.durations, 0.5),
        p95=percentile(bucket.durations, 0.95),
        queue_p95=percentile(bucket.queue_times, 0.95),
    )


def summary_of(points: Sequence[SeriesBucket], now: datetime) -> SeriesSummary:
    """Sum the points of a series up. There must be one."""
    total = total_of(points)
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
    buckets: Iterable[CauseBucket], moments: Sequence[datetime], limit: int, mask: Callable[[str], str]
) -> list[CauseSummary]:
    """Sum causes up over the window, the most deaths first. `moments`: the points of the window."""
    groups: dict[tuple[str, str], list[CauseBucket]] = defaultdict(list)
    for bucket in buckets:
        groups[bucket.job_type, bucket.fingerprint].append(bucket)
    places = {moment: place for place, moment in enumerate(moments)}
    found: list[CauseSummary] = []
    for (job_type, fingerprint), group in groups.items():
        counts = [0] * len(moments)
        for one in group:
            if one.starts_at in places:
                counts[places[one.starts_at]] += one.jobs
        newest = max(group, key=lambda one: one.starts_at)
        found.append(
            CauseSummary(
                job_type=job_type,
                fingerprint=fingerprint,
                error_type=newest.error_type,
                message=mask(newest.message),
                jobs=sum(one.jobs for one in group),
                first_at=min(one.starts_at for one in group),
                last_at=newest.starts_at,
                counts=counts,
            )
        )
    return sorted(found, key=lambda one: (-one.jobs, one.job_type, one.fingerprint))[:limit]

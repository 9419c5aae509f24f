"""The pictures of series: throughput, trend and sparkline. Pure."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from zoneinfo import ZoneInfo

from warrener.web.api.deploys import DeploySummary
from warrener.web.charts.picture import Picture
from warrener.web.charts.sparkline import draw_sparkline
from warrener.web.charts.throughput import ThroughputBucket, draw_throughput
from warrener.web.charts.time_frame import DeployMark
from warrener.web.charts.trend import TrendBucket, draw_trend
from warrener.web.trends.summaries import SeriesPoint

_MAX_MARKS = 12
_SAME_DEPLOY = timedelta(hours=1)
_MAX_BARS = 84
"""A phone shows them, three pixels each."""
_SPARK_POINTS = 30


def marks_of(deploys: Iterable[DeploySummary]) -> list[DeployMark]:
    """The newest deploys as marks; one for the job types that were deployed together."""
    marks: list[DeployMark] = []
    for deploy in sorted(deploys, key=lambda one: one.first_seen_at):
        last = next((mark for mark in reversed(marks) if mark.version == deploy.code_version), None)
        if last is None or deploy.first_seen_at - last.at > _SAME_DEPLOY:
            marks.append(DeployMark(deploy.first_seen_at, deploy.code_version))
    return marks[-_MAX_MARKS:]


def throughput(
    points: Sequence[SeriesPoint],
    deploys: Sequence[DeployMark],
    *,
    title: str,
    zone: ZoneInfo,
    name: str = "throughput",
) -> Picture:
    """Draw ended jobs over time. There must be two points."""
    groups = _groups(points)
    length = (points[1].starts_at - points[0].starts_at) * len(groups[0])
    bars = [_bar(group) for group in groups]
    return draw_throughput(bars, length, title=title, deploys=deploys, name=name, zone=zone)


def _groups(points: Sequence[SeriesPoint]) -> list[Sequence[SeriesPoint]]:
    """Several points each, if there are many."""
    size = -(-len(points) // _MAX_BARS)
    return [points[at : at + size] for at in range(0, len(points), size)]


def _bar(group: Sequence[SeriesPoint]) -> ThroughputBucket:
    return ThroughputBucket(
        start=group[0].starts_at,
        succeeded=sum(point.succeeded for point in group),
        failed=sum(point.failed for point in group),
        # Attempts that failed or were lost, and that another attempt followed.
        retried=sum(max(0, one.failed_attempts + one.lost_attempts - one.dead) for one in group),
        cancelled=sum(point.cancelled for point in group),
    )


def trend(
    points: Sequence[SeriesPoint],
    deploys: Sequence[DeployMark],
    *,
    title: str,
    zone: ZoneInfo,
    name: str = "trend",
) -> Picture:
    """Draw durations and successes over time."""
    buckets = [_trend_bucket(group) for group in _groups(points)]
    return draw_trend(buckets, title=title, deploys=deploys, name=name, zone=zone)


def _trend_bucket(group: Sequence[SeriesPoint]) -> TrendBucket:
    """Join points; their durations are those of the slowest one."""
    slowest = max(group, key=lambda point: point.p95 or 0.0)
    return TrendBucket(
        start=group[0].starts_at,
        succeeded=sum(point.succeeded for point in group),
        failed=sum(point.failed for point in group),
        p50=_length(slowest.p50),
        p95=_length(slowest.p95),
    )


def sparkline(counts: Sequence[int], *, title: str, name: str) -> Picture:
    """Draw counts over time for the line of a table: sums of neighbours, if there are many."""
    size = -(-len(counts) // _SPARK_POINTS)
    values = [float(sum(counts[at : at + size])) for at in range(0, len(counts), size)]
    return draw_sparkline(values, title=title, name=name)


def _length(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)

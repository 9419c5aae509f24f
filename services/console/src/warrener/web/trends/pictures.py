"""The pictures of series: throughput, trend and sparkline, wide and narrow. Pure."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from zoneinfo import ZoneInfo

from warrener.web.api.deploys import DeploySummary
from warrener.web.charts.picture import Picture, for_all_widths
from warrener.web.charts.sparkline import draw_sparkline
from warrener.web.charts.svg import Markup
from warrener.web.charts.throughput import ThroughputBucket, draw_throughput
from warrener.web.charts.time_frame import DeployMark
from warrener.web.charts.trend import TrendBucket, draw_trend
from warrener.web.trends.summaries import SeriesPoint

_MAX_MARKS = 12
_SAME_DEPLOY = timedelta(hours=1)
_NARROW_BARS = 48
_WIDE_BARS = 100
_TREND_POINTS = 100
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
) -> Markup:
    """Draw ended jobs over time, for all widths. There must be two points."""
    bars, length = _bars(points, _WIDE_BARS)
    few, long = _bars(points, _NARROW_BARS)
    return for_all_widths(
        draw_throughput(bars, length, title=title, deploys=deploys, name=name, zone=zone),
        draw_throughput(
            few, long, title=title, deploys=deploys, name=f"{name}-narrow", zone=zone, narrow=True
        ),
    )


def _groups(points: Sequence[SeriesPoint], max_groups: int) -> list[Sequence[SeriesPoint]]:
    """Several points each, if there are many."""
    size = -(-len(points) // max_groups)
    return [points[at : at + size] for at in range(0, len(points), size)]


def _bars(points: Sequence[SeriesPoint], max_bars: int) -> tuple[list[ThroughputBucket], timedelta]:
    groups = _groups(points, max_bars)
    length = (points[1].starts_at - points[0].starts_at) * len(groups[0])
    return [_bar(group) for group in groups], length


def _bar(group: Sequence[SeriesPoint]) -> ThroughputBucket:
    return ThroughputBucket(
        start=group[0].starts_at,
        succeeded=sum(point.succeeded for point in group),
        failed=sum(point.failed for point in group),
        retried=sum(_retried(point) for point in group),
        cancelled=sum(point.cancelled for point in group),
    )


def _retried(point: SeriesPoint) -> int:
    """Attempts that failed or were lost, and that another attempt followed."""
    return max(0, point.failed_attempts + point.lost_attempts - point.dead)


def trend(
    points: Sequence[SeriesPoint],
    deploys: Sequence[DeployMark],
    *,
    title: str,
    zone: ZoneInfo,
    name: str = "trend",
) -> Markup:
    """Draw durations and successes over time, for all widths."""
    wide, narrow = (
        [_trend_bucket(group) for group in _groups(points, count)] for count in (_TREND_POINTS, _NARROW_BARS)
    )
    return for_all_widths(
        draw_trend(wide, title=title, deploys=deploys, name=name, zone=zone),
        draw_trend(narrow, title=title, deploys=deploys, name=f"{name}-narrow", zone=zone, narrow=True),
    )


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

"""Buckets, marks of deploys and sparklines of series, as charts draw them. Pure."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from warrener.operations.job_types import DeploySummary
from warrener.operations.series import SeriesPoint
from warrener.web.charts.picture import Picture
from warrener.web.charts.sparkline import draw_sparkline
from warrener.web.charts.time_frame import DeployMark, TimeBucket

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


def buckets_of(points: Sequence[SeriesPoint]) -> list[TimeBucket]:
    """Join neighbours, if there are many points; their durations are those of the slowest one."""
    size = -(-len(points) // _MAX_BARS)
    return [_bucket(points[at : at + size]) for at in range(0, len(points), size)]


def _bucket(group: Sequence[SeriesPoint]) -> TimeBucket:
    slowest = max(group, key=lambda point: point.p95 or 0.0)
    return TimeBucket(
        start=group[0].starts_at,
        succeeded=sum(point.succeeded for point in group),
        failed=sum(point.failed for point in group),
        # Attempts that failed or were lost, and that another attempt followed.
        retried=sum(max(0, one.failed_attempts + one.lost_attempts - one.dead) for one in group),
        cancelled=sum(point.cancelled for point in group),
        p50=None if slowest.p50 is None else timedelta(seconds=slowest.p50),
        p95=None if slowest.p95 is None else timedelta(seconds=slowest.p95),
    )


def sparkline(counts: Sequence[int], *, title: str, name: str) -> Picture:
    """Draw counts over time for the line of a table: sums of neighbours, if there are many."""
    size = -(-len(counts) // _SPARK_POINTS)
    values = [float(sum(counts[at : at + size])) for at in range(0, len(counts), size)]
    return draw_sparkline(values, title=title, name=name)

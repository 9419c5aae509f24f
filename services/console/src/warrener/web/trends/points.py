"""Windows of time, and the points of a series in them without gaps. Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from operator import itemgetter
from types import MappingProxyType

from warrener_contracts.state_machine import JobState
from warrener_store.statistics.rollup import add_buckets
from warrener_store.statistics.rows import BucketSpan, RecentEnds, SeriesBucket, SeriesKind


class StatisticsWindow(StrEnum):
    """The time that a page shows, until now."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The buckets of a window: their length and number."""

    span: BucketSpan
    count: int

    def since(self, now: datetime) -> datetime:
        """The beginning of the first bucket; the last one has `now` in it."""
        return self.span.floor(now) - self.span.length * (self.count - 1)


RESOLUTIONS: Mapping[StatisticsWindow, Resolution] = MappingProxyType(
    {
        StatisticsWindow.HOUR: Resolution(BucketSpan.MINUTE, 60),
        StatisticsWindow.DAY: Resolution(BucketSpan.TEN_MINUTES, 144),
        StatisticsWindow.WEEK: Resolution(BucketSpan.HOUR, 168),
    }
)


def join_versions(buckets: Iterable[SeriesBucket]) -> list[SeriesBucket]:
    """Add up the versions of each series and moment. One that is alone stays as it is, with its version."""
    groups: dict[tuple[BucketSpan, SeriesKind, str, datetime], list[SeriesBucket]] = defaultdict(list)
    for bucket in buckets:
        groups[bucket.span, bucket.kind, bucket.name, bucket.starts_at].append(bucket)
    return [
        add_buckets(group[0].key._replace(code_version=""), group) if len(group) > 1 else group[0]
        for _, group in sorted(groups.items(), key=itemgetter(0))
    ]


def fill_gaps(
    buckets: Collection[SeriesBucket], resolution: Resolution, now: datetime, kind: SeriesKind, name: str
) -> list[SeriesBucket]:
    """Return one bucket for each moment of the window: an empty one where no job ended."""
    known = {bucket.starts_at: bucket for bucket in buckets}
    since, length = resolution.since(now), resolution.span.length
    moments = [since + length * number for number in range(resolution.count)]
    return [
        known.get(moment) or SeriesBucket(span=resolution.span, kind=kind, name=name, starts_at=moment)
        for moment in moments
    ]


def add_recent(points: Sequence[SeriesBucket], recent: Iterable[RecentEnds]) -> list[SeriesBucket]:
    """Add the jobs that are not in the buckets yet, by number alone."""
    counts: dict[datetime, Counter[JobState]] = defaultdict(Counter)
    for one in recent:
        if points:
            counts[points[0].span.floor(one.minute)][one.state] += one.jobs
    fields = ("succeeded", "dead", "cancelled", "expired")
    return [
        replace(
            point, **{name: getattr(point, name) + counts[point.starts_at][JobState(name)] for name in fields}
        )
        for point in points
    ]


def total_of(points: Sequence[SeriesBucket]) -> SeriesBucket:
    """Add all points up. There must be one."""
    return add_buckets(points[0].key._replace(code_version=""), points)

"""Read series and deploys from the store, for pages and the API."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from warrener.web.trends.points import (
    Resolution,
    add_recent,
    fill_gaps,
    join_versions,
)
from warrener_store import Store
from warrener_store.statistics.rows import (
    RecentEnds,
    RollupPosition,
    SeriesBucket,
    SeriesKind,
    SeriesQuery,
)

DEPLOYS_SHOWN = timedelta(days=90)
_MAX_RECENT = timedelta(minutes=3)
"""Age of jobs that are counted by themselves; older ones are in buckets, or will be soon."""


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

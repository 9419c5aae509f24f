"""Roll ended jobs up into buckets. Pure; the supervisor's duty calls it, and a store stores the result.

Each job is counted in the bucket of its minute, and minutes are added up into longer spans. Buckets that
would be deleted at once are left out, so that the first start on an old table writes few of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from warrener_contracts.identity import schedule_from_source
from warrener_contracts.state_machine import JobState
from warrener_store.statistics import rows
from warrener_store.statistics.histogram import class_of, merge

B = TypeVar("B", rows.SeriesBucket, rows.CauseBucket)
VersionOf = Callable[[str | None, datetime], str]
"""Takes an agent and a moment; the version that the agent ran then, empty if unknown."""
_MAX_MESSAGE = 200


class KnownNames:
    """The names that have series of their own: the first MAX_NAMES of each kind."""

    def __init__(self, names: Iterable[tuple[rows.SeriesKind, str]] = ()) -> None:
        self._names: dict[rows.SeriesKind, set[str]] = defaultdict(set)
        for kind, name in names:
            self._names[kind].add(name)

    def admit(self, kind: rows.SeriesKind, name: str) -> str:
        """Return the name if it has a series of its own, else OTHER."""
        known = self._names[kind]
        if name not in known:
            if len(known - {rows.OTHER}) >= rows.MAX_NAMES:
                return rows.OTHER
            known.add(name)
        return name


@dataclass(frozen=True, slots=True)
class Increments:
    """The buckets that some jobs add up to; to be added to the stored ones."""

    buckets: Mapping[rows.SeriesKey, rows.SeriesBucket]
    causes: Mapping[rows.CauseKey, rows.CauseBucket]


def roll_up(
    jobs: Iterable[rows.EndedJob], version_of: VersionOf, names: KnownNames, now: datetime
) -> Increments:
    """Count these jobs."""
    minutes: dict[rows.SeriesKey, list[rows.SeriesBucket]] = defaultdict(list)
    causes: dict[rows.CauseKey, rows.CauseBucket] = {}
    for job in jobs:
        minute = rows.BucketSpan.MINUTE.floor(job.finished_at)
        version = version_of(job.agent_id, job.finished_at)
        job_type = names.admit(rows.SeriesKind.JOB_TYPE, job.job_type)
        series = [(rows.SeriesKind.ALL, ""), (rows.SeriesKind.JOB_TYPE, job_type)]
        if (schedule := schedule_from_source(job.source)) is not None:
            series.append((rows.SeriesKind.SCHEDULE, names.admit(rows.SeriesKind.SCHEDULE, schedule)))
        counted = _count_job(job, minute)
        for kind, name in series:
            minutes[rows.SeriesKey(rows.BucketSpan.MINUTE, kind, name, minute, version)].append(counted)
        if job.state is JobState.DEAD:
            _count_cause(causes, job, job_type, minute)
    buckets = [add_buckets(key, counted) for key, counted in minutes.items()]
    return Increments(
        {key: add_buckets(key, group) for key, group in _widen(buckets, now)},
        {key: _with_key(key, _add_causes(group)) for key, group in _widen(causes.values(), now)},
    )


def _count_job(job: rows.EndedJob, minute: datetime) -> rows.SeriesBucket:
    """The bucket of one job, to be added to those of its series."""
    counts: dict[str, Any] = {
        job.state.value: 1,
        "failed_attempts": job.failures,
        "lost_attempts": job.losses,
    }
    if job.state is JobState.SUCCEEDED and job.started_at is not None:
        spans = (
            ("duration", job.started_at, job.ran_until),
            ("queue_time", job.dispatched_at, job.started_at),
        )
        for name, began, ended in spans:
            if began is not None and ended is not None:
                seconds = max(0.0, (ended - began).total_seconds())
                counts |= {f"{name}_sum": seconds, f"{name}_max": seconds, f"{name}s": {class_of(seconds): 1}}
    return rows.SeriesBucket(
        span=rows.BucketSpan.MINUTE, kind=rows.SeriesKind.ALL, name="", starts_at=minute, **counts
    )


def _count_cause(
    causes: dict[rows.CauseKey, rows.CauseBucket], job: rows.EndedJob, job_type: str, minute: datetime
) -> None:
    one = rows.CauseBucket(
        span=rows.BucketSpan.MINUTE,
        job_type=job_type,
        starts_at=minute,
        fingerprint=job.fingerprint,
        jobs=1,
        error_type=job.error_type[:_MAX_MESSAGE],
        message=job.message[:_MAX_MESSAGE],
    )
    causes[one.key] = _add_causes([causes[one.key], one]) if one.key in causes else one


def _widen(minutes: Collection[B], now: datetime) -> Iterator[tuple[Any, list[B]]]:
    """Group buckets of minutes by the keys of the longer ones that they are added up into."""
    for span in rows.BucketSpan:
        groups: dict[Any, list[B]] = defaultdict(list)
        for one in minutes:
            starts_at = span.floor(one.starts_at)
            if starts_at > now - rows.RETENTION[span]:
                groups[one.key._replace(span=span, starts_at=starts_at)].append(one)
        yield from groups.items()


_SUMS = (
    "succeeded",
    "dead",
    "cancelled",
    "expired",
    "failed_attempts",
    "lost_attempts",
    "duration_sum",
    "queue_time_sum",
)
_MAXIMA = ("duration_max", "queue_time_max")
_HISTOGRAMS = ("durations", "queue_times")


def add_buckets(key: rows.SeriesKey, buckets: Collection[rows.SeriesBucket]) -> rows.SeriesBucket:
    """Return the sum of buckets, by another key, such as that of a longer span."""
    totals: dict[str, Any] = {name: sum(getattr(one, name) for one in buckets) for name in _SUMS}
    totals |= {name: max((getattr(one, name) for one in buckets), default=0.0) for name in _MAXIMA}
    totals |= {name: merge(getattr(one, name) for one in buckets) for name in _HISTOGRAMS}
    return rows.SeriesBucket(**key._asdict(), **totals)


def _add_causes(causes: Collection[rows.CauseBucket]) -> rows.CauseBucket:
    first = next(iter(causes))
    return _with_key(first.key, first, sum(one.jobs for one in causes))


def _with_key(key: rows.CauseKey, cause: rows.CauseBucket, jobs: int | None = None) -> rows.CauseBucket:
    found = replace(cause, **key._asdict(), jobs=cause.jobs if jobs is None else jobs)
    return found if key.fingerprint else replace(found, error_type="", message="")


def add_to_stored(
    increments: Increments, buckets: Iterable[rows.SeriesBucket], causes: Iterable[rows.CauseBucket]
) -> tuple[list[rows.SeriesBucket], list[rows.CauseBucket]]:
    """Return the buckets as they are to be stored: those stored, with the increments."""
    stored = {bucket.key: bucket for bucket in buckets}
    changed = [
        add_buckets(key, [stored[key], one]) if key in stored else one
        for key, one in increments.buckets.items()
    ]
    return changed, _with_limited_causes(increments.causes, list(causes))


def _with_limited_causes(
    increments: Mapping[rows.CauseKey, rows.CauseBucket], stored: Collection[rows.CauseBucket]
) -> list[rows.CauseBucket]:
    by_key = {cause.key: cause for cause in stored}
    sizes = Counter((key.span, key.job_type, key.starts_at) for key in by_key if key.fingerprint)
    changed: dict[rows.CauseKey, rows.CauseBucket] = {}
    for key, one in sorted(increments.items(), key=lambda item: -item[1].jobs):
        place = (key.span, key.job_type, key.starts_at)
        if key.fingerprint and key not in by_key:
            sizes[place] += 1
        target = key if key in by_key or sizes[place] <= rows.MAX_CAUSES else key._replace(fingerprint="")
        held = changed.get(target) or by_key.get(target)
        changed[target] = _with_key(target, one, one.jobs + (held.jobs if held else 0))
    return list(changed.values())

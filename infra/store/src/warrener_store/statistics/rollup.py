"""Roll ended jobs up into buckets. Pure; the supervisor's duty calls it, and a store stores the result.

Each job is counted in the bucket of its minute, and minutes are added up into longer spans. Buckets that
would be deleted at once are left out, so that the first start on an old table writes few of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from warrener_contracts.identity import schedule_from_source
from warrener_contracts.state_machine import JobState
from warrener_store.statistics.histogram import class_of, merge
from warrener_store.statistics.rows import (
    MAX_CAUSES,
    MAX_NAMES,
    OTHER,
    RETENTION,
    BucketSpan,
    CauseBucket,
    CauseKey,
    EndedJob,
    SeriesBucket,
    SeriesKey,
    SeriesKind,
)

VersionOf = Callable[[str | None, datetime], str]
"""Takes an agent and a moment; the version that the agent ran then, empty if unknown."""
_MAX_MESSAGE = 200


class KnownNames:
    """The names that have series of their own: the first MAX_NAMES of each kind."""

    def __init__(self, names: Iterable[tuple[SeriesKind, str]] = ()) -> None:
        self._names: dict[SeriesKind, set[str]] = defaultdict(set)
        for kind, name in names:
            self._names[kind].add(name)

    def admit(self, kind: SeriesKind, name: str) -> str:
        """Return the name if it has a series of its own, else OTHER."""
        known = self._names[kind]
        if name not in known:
            if len(known - {OTHER}) >= MAX_NAMES:
                return OTHER
            known.add(name)
        return name


@dataclass(slots=True)
class _Totals:
    """The counts of one bucket."""

    states: Counter[JobState] = field(default_factory=Counter[JobState])
    failed_attempts: int = 0
    lost_attempts: int = 0
    duration_sum: float = 0.0
    duration_max: float = 0.0
    durations: Counter[int] = field(default_factory=Counter[int])
    queue_time_sum: float = 0.0
    queue_time_max: float = 0.0
    queue_times: Counter[int] = field(default_factory=Counter[int])

    def add(self, job: EndedJob) -> None:
        self.states[job.state] += 1
        self.failed_attempts += job.failures
        self.lost_attempts += job.losses
        if job.state is not JobState.SUCCEEDED or job.started_at is None:
            return
        if job.ran_until is not None:
            seconds = max(0.0, (job.ran_until - job.started_at).total_seconds())
            self.duration_sum += seconds
            self.duration_max = max(self.duration_max, seconds)
            self.durations[class_of(seconds)] += 1
        if job.dispatched_at is not None:
            seconds = max(0.0, (job.started_at - job.dispatched_at).total_seconds())
            self.queue_time_sum += seconds
            self.queue_time_max = max(self.queue_time_max, seconds)
            self.queue_times[class_of(seconds)] += 1

    def to_bucket(self, key: SeriesKey) -> SeriesBucket:
        return SeriesBucket(
            span=key.span,
            kind=key.kind,
            name=key.name,
            starts_at=key.starts_at,
            code_version=key.code_version,
            succeeded=self.states[JobState.SUCCEEDED],
            dead=self.states[JobState.DEAD],
            cancelled=self.states[JobState.CANCELLED],
            expired=self.states[JobState.EXPIRED],
            failed_attempts=self.failed_attempts,
            lost_attempts=self.lost_attempts,
            duration_sum=self.duration_sum,
            duration_max=self.duration_max,
            durations=dict(self.durations),
            queue_time_sum=self.queue_time_sum,
            queue_time_max=self.queue_time_max,
            queue_times=dict(self.queue_times),
        )


@dataclass(frozen=True, slots=True)
class Increments:
    """The buckets that some jobs add up to; to be added to the stored ones."""

    buckets: Mapping[SeriesKey, SeriesBucket]
    causes: Mapping[CauseKey, CauseBucket]


def roll_up(jobs: Iterable[EndedJob], version_of: VersionOf, names: KnownNames, now: datetime) -> Increments:
    """Count these jobs."""
    minutes: dict[SeriesKey, _Totals] = defaultdict(_Totals)
    causes: dict[CauseKey, CauseBucket] = {}
    for job in jobs:
        minute = BucketSpan.MINUTE.floor(job.finished_at)
        version = version_of(job.agent_id, job.finished_at)
        job_type = names.admit(SeriesKind.JOB_TYPE, job.job_type)
        minutes[SeriesKey(BucketSpan.MINUTE, SeriesKind.ALL, "", minute, version)].add(job)
        minutes[SeriesKey(BucketSpan.MINUTE, SeriesKind.JOB_TYPE, job_type, minute, version)].add(job)
        if (schedule := schedule_from_source(job.source)) is not None:
            name = names.admit(SeriesKind.SCHEDULE, schedule)
            minutes[SeriesKey(BucketSpan.MINUTE, SeriesKind.SCHEDULE, name, minute, version)].add(job)
        if job.state is JobState.DEAD:
            _count_cause(causes, job, job_type, minute)
    buckets = [totals.to_bucket(key) for key, totals in minutes.items()]
    return Increments(
        {bucket.key: bucket for bucket in _widen_buckets(buckets, now)},
        {cause.key: cause for cause in _widen_causes(causes.values(), now)},
    )


def _count_cause(causes: dict[CauseKey, CauseBucket], job: EndedJob, job_type: str, minute: datetime) -> None:
    one = CauseBucket(
        span=BucketSpan.MINUTE,
        job_type=job_type,
        starts_at=minute,
        fingerprint=job.fingerprint,
        jobs=1,
        error_type=job.error_type[:_MAX_MESSAGE],
        message=job.message[:_MAX_MESSAGE],
    )
    causes[one.key] = _add_causes([causes[one.key], one]) if one.key in causes else one


def _widen_buckets(minutes: Collection[SeriesBucket], now: datetime) -> Iterable[SeriesBucket]:
    for span in BucketSpan:
        groups: dict[SeriesKey, list[SeriesBucket]] = defaultdict(list)
        for bucket in minutes:
            starts_at = span.floor(bucket.starts_at)
            if starts_at > now - RETENTION[span]:
                groups[bucket.key._replace(span=span, starts_at=starts_at)].append(bucket)
        for key, group in groups.items():
            yield add_buckets(key, group)


def _widen_causes(minutes: Collection[CauseBucket], now: datetime) -> Iterable[CauseBucket]:
    for span in BucketSpan:
        groups: dict[CauseKey, list[CauseBucket]] = defaultdict(list)
        for cause in minutes:
            starts_at = span.floor(cause.starts_at)
            if starts_at > now - RETENTION[span]:
                groups[cause.key._replace(span=span, starts_at=starts_at)].append(cause)
        for key, group in groups.items():
            yield _with_key(key, _add_causes(group))


def add_buckets(key: SeriesKey, buckets: Collection[SeriesBucket]) -> SeriesBucket:
    """Return the sum of buckets, by another key, such as that of a longer span."""
    return SeriesBucket(
        span=key.span,
        kind=key.kind,
        name=key.name,
        starts_at=key.starts_at,
        code_version=key.code_version,
        succeeded=sum(one.succeeded for one in buckets),
        dead=sum(one.dead for one in buckets),
        cancelled=sum(one.cancelled for one in buckets),
        expired=sum(one.expired for one in buckets),
        failed_attempts=sum(one.failed_attempts for one in buckets),
        lost_attempts=sum(one.lost_attempts for one in buckets),
        duration_sum=sum(one.duration_sum for one in buckets),
        duration_max=max((one.duration_max for one in buckets), default=0.0),
        durations=merge(one.durations for one in buckets),
        queue_time_sum=sum(one.queue_time_sum for one in buckets),
        queue_time_max=max((one.queue_time_max for one in buckets), default=0.0),
        queue_times=merge(one.queue_times for one in buckets),
    )


def _add_causes(causes: Collection[CauseBucket]) -> CauseBucket:
    first = next(iter(causes))
    return _with_key(first.key, first, sum(one.jobs for one in causes))


def _with_key(key: CauseKey, cause: CauseBucket, jobs: int | None = None) -> CauseBucket:
    return CauseBucket(
        span=key.span,
        job_type=key.job_type,
        starts_at=key.starts_at,
        fingerprint=key.fingerprint,
        jobs=cause.jobs if jobs is None else jobs,
        error_type=cause.error_type if key.fingerprint else "",
        message=cause.message if key.fingerprint else "",
    )


def add_to_stored(
    increments: Increments, buckets: Iterable[SeriesBucket], causes: Iterable[CauseBucket]
) -> tuple[list[SeriesBucket], list[CauseBucket]]:
    """Return the buckets as they are to be stored: those stored, with the increments."""
    stored = {bucket.key: bucket for bucket in buckets}
    changed = [
        add_buckets(key, [stored[key], one]) if key in stored else one
        for key, one in increments.buckets.items()
    ]
    return changed, _with_limited_causes(increments.causes, list(causes))


def _with_limited_causes(
    increments: Mapping[CauseKey, CauseBucket], stored: Collection[CauseBucket]
) -> list[CauseBucket]:
    by_key = {cause.key: cause for cause in stored}
    sizes = Counter((key.span, key.job_type, key.starts_at) for key in by_key if key.fingerprint)
    changed: dict[CauseKey, CauseBucket] = {}
    for key, one in sorted(increments.items(), key=lambda item: -item[1].jobs):
        place = (key.span, key.job_type, key.starts_at)
        if key.fingerprint and key not in by_key:
            sizes[place] += 1
        target = key if key in by_key or sizes[place] <= MAX_CAUSES else key._replace(fingerprint="")
        held = changed.get(target) or by_key.get(target)
        changed[target] = _with_key(target, one, one.jobs + (held.jobs if held else 0))
    return list(changed.values())

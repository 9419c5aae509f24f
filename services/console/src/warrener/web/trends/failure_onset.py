"""Find the moment from which more jobs of a type failed, and what changed before it. Pure.

The moment splits the series in two with the greatest ratio of likelihoods. It counts only if the ratio is
great, and the share of failures at least doubled.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from math import log

from warrener.render.times import span
from warrener_store.statistics.rows import CauseBucket, Deploy, SeriesBucket

MIN_FAILED = 3
"""Failed jobs after the moment, below which nothing is said."""
MIN_RATIO = 10.0
"""Logarithm of the ratio of likelihoods from which a split counts: chance brings less."""
BLAMED_WITHIN = timedelta(hours=6)
"""Time before the moment in which a deploy, or a change of a schedule, is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The moment from which another share of jobs failed."""

    at: datetime
    before_rate: float | None  # None: no job ended before
    after_rate: float
    before_jobs: int
    after_jobs: int
    after_failed: int
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDeath:
    """The first death of a cause that is stored."""

    fingerprint: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """A schedule that requests the job type was put or changed."""

    schedule: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BlamedDeploy:
    """The last deploy before the moment."""

    code_version: str
    previous: str | None
    first_seen_at: datetime
    schema_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MainCause:
    """The cause of most deaths since the moment."""

    fingerprint: str
    error_type: str
    message: str
    jobs: int
    is_new: bool  # nobody died of it before


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureOnset:
    """The moment when a job type began to fail, and what changed before it."""

    job_type: str
    began_at: datetime
    recovered_at: datetime | None  # None: it fails still
    before_rate: float | None
    after_rate: float
    after_jobs: int
    after_failed: int
    deploy: BlamedDeploy | None
    cause: MainCause | None
    schedules: tuple[ScheduleChange, ...]

    @property
    def sentence(self) -> str:
        """The finding in one sentence, without times of day."""
        tense = "fails" if self.recovered_at is None else "failed"
        parts = [f"{self.job_type} began to fail{self._after_deploy()}"]
        share = f"{tense} {format_share(self.after_rate)} of its jobs"
        if self.before_rate is not None:
            share += f", before {format_share(self.before_rate)}"
        parts.append(share)
        if self.cause is not None and self.cause.error_type:
            new = ", new since then" if self.cause.is_new else ""
            parts.append(f"error {self.cause.error_type}{new}")
        if self.deploy is not None and self.deploy.schema_changed:
            parts.append("the schema of its arguments changed with the version")
        for change in self.schedules:
            ahead = span(max(self.began_at - change.at, timedelta(0)), units=1)
            parts.append(f"schedule {change.schedule} changed {ahead} before")
        if self.recovered_at is not None:
            parts.append(f"it was over after {span(self.recovered_at - self.began_at, units=1)}")
        return "; ".join(parts)

    def _after_deploy(self) -> str:
        if self.deploy is None:
            return ", without a deploy before"
        ahead = self.began_at - self.deploy.first_seen_at
        when = "with" if ahead < timedelta(seconds=10) else f"{span(ahead, units=1)} after"
        previous = f" ({self.deploy.previous} before)" if self.deploy.previous else ""
        return f" {when} version {self.deploy.code_version}{previous}"


def format_share(share: float) -> str:
    """A share in percent, as exact as it matters."""
    percent = 100 * share
    return f"{percent:.1f} %" if 0 < percent < 10 else f"{percent:.0f} %"


def find_onset(points: Sequence[SeriesBucket]) -> tuple[Split, datetime | None] | None:
    """Return the split from which more jobs failed, and the moment when that was over, if it is."""
    split = _best_split(points, worse=True)
    if split is None:
        return None
    end = _best_split([point for point in points if point.starts_at >= split.at], worse=False)
    if end is None or end.after_rate > (split.before_rate or 0.0) + 0.25 * _rate_until(points, split, end):
        return split, None
    return _without_tail(points, split, end.at), end.at


def _rate_until(points: Iterable[SeriesBucket], split: Split, end: Split) -> float:
    inside = [point for point in points if split.at <= point.starts_at < end.at]
    return sum(point.failed for point in inside) / max(sum(map(_judged, inside)), 1)


def _without_tail(points: Iterable[SeriesBucket], split: Split, until: datetime) -> Split:
    inside = [point for point in points if split.at <= point.starts_at < until]
    failed, jobs = sum(point.failed for point in inside), sum(map(_judged, inside))
    return Split(
        at=split.at,
        before_rate=split.before_rate,
        after_rate=failed / max(jobs, 1),
        before_jobs=split.before_jobs,
        after_jobs=jobs,
        after_failed=failed,
        ratio=split.ratio,
    )


def _judged(point: SeriesBucket) -> int:
    return point.succeeded + point.failed


def _best_split(points: Sequence[SeriesBucket], *, worse: bool) -> Split | None:
    """The most likely split after which more jobs failed (`worse`), or fewer."""
    jobs = [0, *accumulate(map(_judged, points))]
    failed = [0, *accumulate(point.failed for point in points)]
    best: Split | None = None
    for at in range(1, len(points)):
        before, after = (failed[at], jobs[at]), (failed[-1] - failed[at], jobs[-1] - jobs[at])
        if not before[1] or not after[1]:
            continue
        ratio = _likelihood(*before) + _likelihood(*after) - _likelihood(failed[-1], jobs[-1])
        rates = before[0] / before[1], after[0] / after[1]
        is_wanted = _is_worse(*rates, after[0]) if worse else rates[1] < rates[0] / 2
        if is_wanted and ratio >= MIN_RATIO and (best is None or ratio > best.ratio):
            best = Split(
                at=points[at].starts_at,
                before_rate=rates[0],
                after_rate=rates[1],
                before_jobs=before[1],
                after_jobs=after[1],
                after_failed=after[0],
                ratio=ratio,
            )
    return best


def _is_worse(before: float, after: float, failed: int) -> bool:
    return failed >= MIN_FAILED and after >= 2 * before and after >= before + 0.01


def _likelihood(failed: int, jobs: int) -> float:
    """The logarithm of the greatest likelihood of so many failures."""
    if failed in (0, jobs):
        return 0.0
    share = failed / jobs
    return failed * log(share) + (jobs - failed) * log(1 - share)


def explain_onset(
    job_type: str,
    points: Sequence[SeriesBucket],
    *,
    deploys: Collection[Deploy],
    causes: Collection[CauseBucket],
    first_deaths: Collection[FirstDeath] = (),
    schedule_changes: Collection[ScheduleChange] = (),
) -> FailureOnset | None:
    """Explain when a job type began to fail. `deploys` and `causes` are those of the job type."""
    found = find_onset(points)
    if found is None:
        return None
    split, recovered_at = found
    length = points[0].span.length
    lasted = (recovered_at or points[-1].starts_at + length) - split.at
    earliest = split.at - max(3 * length, lasted / 4)
    cause = _main_cause(split.at, recovered_at, earliest, causes, first_deaths)
    began_at = _refine(split.at, length, earliest, cause, first_deaths)
    blamed = (
        change
        for change in schedule_changes
        if began_at - BLAMED_WITHIN <= change.at <= max(began_at, split.at + length)
    )
    return FailureOnset(
        job_type=job_type,
        began_at=began_at,
        recovered_at=recovered_at,
        before_rate=split.before_rate,
        after_rate=split.after_rate,
        after_jobs=split.after_jobs,
        after_failed=split.after_failed,
        deploy=_blamed_deploy(began_at, length, deploys),
        cause=cause,
        schedules=tuple(sorted(blamed, key=lambda change: change.at)),
    )


def _refine(
    split_at: datetime,
    length: timedelta,
    earliest: datetime,
    cause: MainCause | None,
    first_deaths: Iterable[FirstDeath],
) -> datetime:
    """The first death of a new cause, if it fits the split: buckets begin at round times."""
    if cause is None or not cause.is_new:
        return split_at
    exact = [death.at for death in first_deaths if death.fingerprint == cause.fingerprint]
    return next((at for at in exact if earliest <= at < split_at + 2 * length), split_at)


def _main_cause(
    since: datetime,
    until: datetime | None,
    earliest: datetime,
    causes: Collection[CauseBucket],
    first_deaths: Iterable[FirstDeath],
) -> MainCause | None:
    """The cause of most deaths. It is new if nobody died of it before `earliest`.

    The most likely split may lie behind the first deaths, where these are few.
    """
    jobs: dict[str, int] = {}
    for one in causes:
        if one.fingerprint and one.starts_at >= since and (until is None or one.starts_at < until):
            jobs[one.fingerprint] = jobs.get(one.fingerprint, 0) + one.jobs
    if not jobs:
        return None
    fingerprint = max(jobs, key=lambda each: (jobs[each], each))
    known = {death.fingerprint: death.at for death in first_deaths}
    newest = max((one for one in causes if one.fingerprint == fingerprint), key=lambda one: one.starts_at)
    is_seen_before = any(one.fingerprint == fingerprint and one.starts_at < earliest for one in causes)
    return MainCause(
        fingerprint=fingerprint,
        error_type=newest.error_type,
        message=newest.message,
        jobs=jobs[fingerprint],
        is_new=not is_seen_before and known.get(fingerprint, since) >= earliest,
    )


def _blamed_deploy(began_at: datetime, length: timedelta, deploys: Collection[Deploy]) -> BlamedDeploy | None:
    """The last deploy before the moment. A bucket begins before the job in it that failed first."""
    ordered = sorted(deploys, key=lambda one: one.first_seen_at)
    before = [one for one in ordered if one.first_seen_at < began_at + length]
    if not before or before[-1].first_seen_at < began_at - BLAMED_WITHIN:
        return None
    deploy, previous = before[-1], before[-2] if len(before) > 1 else None
    return BlamedDeploy(
        code_version=deploy.code_version,
        previous=None if previous is None else previous.code_version,
        first_seen_at=deploy.first_seen_at,
        schema_changed=bool(
            previous is not None
            and previous.schema_hash
            and deploy.schema_hash
            and previous.schema_hash != deploy.schema_hash
        ),
    )

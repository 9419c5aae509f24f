"""Statistics, deploys and versions as frozen values. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.statistics.histogram import Histogram

MAX_NAMES = 200
"""Job types, and schedules, that have statistics of their own; the others count together as OTHER."""
MAX_CAUSES = 20
"""Causes of death of a job type in one bucket; the others count together."""
OTHER = "(other)"
"""The name of all job types, or all schedules, beyond MAX_NAMES. No job type can have it."""


class BucketSpan(IntEnum):
    """The length of a bucket in seconds."""

    MINUTE = 60
    TEN_MINUTES = 600
    HOUR = 3600
    DAY = 86_400

    def floor(self, moment: datetime) -> datetime:
        """The beginning of the bucket of a moment."""
        seconds = int(moment.timestamp())
        return datetime.fromtimestamp(seconds - seconds % self.value, UTC)

    @property
    def length(self) -> timedelta:
        return timedelta(seconds=self.value)


RETENTION: Mapping[BucketSpan, timedelta] = MappingProxyType(
    {
        BucketSpan.MINUTE: timedelta(hours=6),
        BucketSpan.TEN_MINUTES: timedelta(days=3),
        BucketSpan.HOUR: timedelta(days=35),
        BucketSpan.DAY: timedelta(days=400),
    }
)
"""Time for which buckets of each length stay. With MAX_NAMES it bounds the rows, however many jobs end."""


class SeriesKind(StrEnum):
    """The jobs that a series counts."""

    ALL = "all"  # its name is empty
    JOB_TYPE = "job_type"
    SCHEDULE = "schedule"


class SeriesKey(NamedTuple):
    """The identity of a bucket."""

    span: BucketSpan
    kind: SeriesKind
    name: str
    starts_at: datetime
    code_version: str  # empty: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesBucket:
    """The jobs of a series that ended in one span of time and ran one version of the code.

    Durations and queue times are those of the successful attempts; sums and maxima are seconds.
    """

    span: BucketSpan
    kind: SeriesKind
    name: str
    starts_at: datetime
    code_version: str = ""
    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    failed_attempts: int = 0  # charged attempts of these jobs
    lost_attempts: int = 0
    duration_sum: float = 0.0
    duration_max: float = 0.0
    durations: Histogram = field(default_factory=dict[int, int])
    queue_time_sum: float = 0.0
    queue_time_max: float = 0.0
    queue_times: Histogram = field(default_factory=dict[int, int])

    @property
    def key(self) -> SeriesKey:
        return SeriesKey(self.span, self.kind, self.name, self.starts_at, self.code_version)

    @property
    def jobs(self) -> int:
        """All jobs that ended."""
        return self.succeeded + self.dead + self.cancelled + self.expired

    @property
    def failed(self) -> int:
        """Jobs that ended badly: dead, or expired."""
        return self.dead + self.expired


class CauseKey(NamedTuple):
    """The identity of a bucket of one cause of death."""

    span: BucketSpan
    job_type: str
    starts_at: datetime
    fingerprint: str  # empty: all causes beyond MAX_CAUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseBucket:
    """The jobs of a type that died of one cause in one span of time."""

    span: BucketSpan
    job_type: str
    starts_at: datetime
    fingerprint: str
    jobs: int
    error_type: str
    message: str  # of one of them

    @property
    def key(self) -> CauseKey:
        return CauseKey(self.span, self.job_type, self.starts_at, self.fingerprint)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """The facts of a job that is over from which statistics are made."""

    job_id: UUID
    job_type: str
    state: JobState
    source: str
    agent_id: str | None
    failures: int
    losses: int
    dispatched_at: datetime | None
    started_at: datetime | None  # of its last attempt
    ran_until: datetime | None
    finished_at: datetime
    fingerprint: str = ""
    error_type: str = ""
    message: str = ""


_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupPosition:
    """How far jobs are rolled up: all that ended up to this job are in the buckets.

    `revision` grows by one with each change of the buckets.
    """

    revision: int = 0
    finished_at: datetime = _BEGIN
    job_id: UUID = _FIRST_ID
    complete_until: datetime = _BEGIN
    """No job that ended until then is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """The buckets to read. `names` are those of the kind; ALL has the empty one."""

    span: BucketSpan
    kind: SeriesKind = SeriesKind.ALL
    names: Collection[str] = ("",)
    since: datetime
    until: datetime | None = None  # buckets that begin before


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentEnds:
    """The number of jobs that ended in one minute, from the jobs themselves."""

    job_type: str
    state: JobState
    minute: datetime
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    """A version of the code that the agents of a job type began to run."""

    job_type: str
    first_seen_at: datetime
    code_version: str
    last_seen_at: datetime
    schema_hash: str = ""  # of the schema of its arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentVersion:
    """A version of the code that an agent ran from a moment on."""

    agent_id: str
    since: datetime
    code_version: str

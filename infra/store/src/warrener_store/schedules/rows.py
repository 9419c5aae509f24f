"""Schedules, their ticks, the events they wait for and the expectations of their owners, as frozen values.
Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from warrener_contracts.schedule_words import TickStatus
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:
    from warrener_contracts.events import SchedulePutData
else:
    SchedulePutData = object  # its module is large, and no row is checked when it is made

PORTION = 500
"""The maximum number of arrivals of one schedule that are decided at once."""
FIRST_TIME = datetime.min.replace(tzinfo=UTC)
LAST_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule: its definition and its progress.

    `wake_at` is when a scheduler must look at it: when the next tick is due, or earlier while a tick waits
    for the end of a job. None once it is over.
    """

    definition: SchedulePutData
    put_at: datetime
    zone_version: str  # of the time zone database by which `next_at` was planned
    paused: bool = False
    next_at: datetime | None = None  # the next nominal time
    wake_at: datetime | None = None
    last_nominal_at: datetime | None = None  # the last nominal time that was decided
    runs: int = 0  # jobs that its ticks have requested
    waiting: int = 0  # ticks that wait for the end of a job
    last_job_id: UUID | None = None  # set if the overlap policy needs it
    last_fired_at: datetime | None = None
    pause_reason: str = ""  # as given by the operator who paused it

    @property
    def name(self) -> str:
        """The name of its definition."""
        return self.definition.name


@dataclass(frozen=True, slots=True, kw_only=True)
class TickRow:
    """One nominal time of a schedule and its outcome. Only its publishing, and the decision about a waiting
    one, change it later."""

    schedule: str
    nominal_at: datetime
    status: TickStatus
    due_at: datetime
    decided_at: datetime
    reason: str = ""
    job_id: UUID | None = None
    fired_at: datetime | None = None  # the broker has confirmed its request
    wake_at: datetime | None = None  # not confirmed by then: published again
    request: str | None = None  # the event that requests its job, until the broker has confirmed it

    @property
    def key(self) -> tuple[str, datetime]:
        """The primary key."""
        return self.schedule, self.nominal_at


@dataclass(frozen=True, slots=True)
class RejectedTick:
    """A tick whose request was rejected."""

    schedule: str
    job_id: UUID
    reason: str


EXAMINED_SCHEDULES = 100
"""The number of schedules whose old ticks one page holds."""


@dataclass(frozen=True, slots=True)
class OldTicks:
    """A page of old ticks, and the name behind which the next page begins once these are deleted: the same
    one if a schedule may have more of them; None: no next page."""

    ticks: list[TickRow]
    after: str | None = None


Address = tuple[str, str]
"""A binding: an exchange and a routing key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRow:
    """The arrival of something that a schedule waits for. It is open until it has become ticks; then it stays
    for a while without its event, so that a repeat changes nothing."""

    schedule: str
    event_id: UUID
    occurred_at: datetime
    received_at: datetime
    upstream: str = ""  # the upstream of the rule that has ended; empty: an event came
    nominal_at: datetime | None = None  # of its tick, while that waits for the end of a job
    event: str | None = None  # JSON, as the job receives it; None: no longer open


@dataclass(frozen=True, slots=True)
class ArrivalOutcome:
    """The outcome of an arrival. With a nominal time its tick waits, and the arrival stays open."""

    schedule: str
    event_id: UUID
    nominal_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule to decide about, with the facts that the decision needs."""

    row: ScheduleRow
    last_job: JobState | None = None  # None: no such job, or it does not matter
    oldest_waiting: datetime | None = None
    last_success: datetime | None = None  # if its arguments name it
    arrivals: tuple[ArrivalRow, ...] = ()  # the open ones


@dataclass(frozen=True, slots=True)
class Advance:
    """The progress of a schedule, and the ticks that were decided with it."""

    row: ScheduleRow
    ticks: tuple[TickRow, ...] = ()
    settled: tuple[ArrivalOutcome, ...] = ()  # the outcomes of arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationRow:
    """One declaration in agents' code that was adopted; never changed again."""

    name: str  # of the schedule
    definition_hash: str  # of the declared definition
    job_type: str
    declared_by: str
    declared_at: datetime

    @property
    def key(self) -> tuple[str, str]:
        """The primary key."""
        return self.name, self.definition_hash


MAX_RUNS_EXAMINED = 1000
"""The number of newest ticks of a schedule whose jobs are examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRow:
    """The expectations of one schedule (at least one of the two), and when it last met them."""

    name: str
    pause_after: int | None = None  # jobs that fail in a row
    success_within: timedelta | None = None
    since: datetime  # nothing before counts: the schedule was put then, or resumed
    check_at: datetime
    last_success_tick: datetime | None = None  # the newest tick whose job is known to have succeeded
    last_success_at: datetime | None = None  # when that job did


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A tick that has requested a job, with the state of that job; None if there is no such job."""

    nominal_at: datetime
    decided_at: datetime
    fired_at: datetime | None
    state: JobState | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilter:
    """The schedules to list, by name; None selects any."""

    text: str | None = None  # a part of the name, in lower case
    owner: str | None = None
    job_type: str | None = None
    paused: bool | None = None
    due_before: datetime | None = None  # those whose next tick or `wake_at` is earlier
    sleeping: bool = False  # True: only those that no scheduler has to look at
    after: str = ""  # only names behind this one
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """A tick with the state of its job; `state` is None if the tick has no job, or the store not any longer.

    `started_at` and `finished_at` are those of the job's last attempt.
    """

    schedule: str
    nominal_at: datetime
    status: TickStatus
    due_at: datetime
    decided_at: datetime
    reason: str
    job_id: UUID | None = None
    fired_at: datetime | None = None
    state: JobState | None = None
    attempt: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WatchedSchedule:
    """A watched schedule, and its runs since the last known success, that one included; the newest first, at
    most MAX_RUNS_EXAMINED."""

    row: WatchRow
    paused: bool
    runs: tuple[RunRow, ...] = ()

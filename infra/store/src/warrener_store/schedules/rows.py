"""Schedules and ticks as frozen values."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:
    from warrener_store.triggers.rows import ArrivalOutcome, ArrivalRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule: what its owner asked for, and how far it has come.

    `wake_at` is when a scheduler must look at it: when the next tick is to be decided, or earlier while a
    tick waits for the end of a job. None once it is over.
    """

    asked: SchedulePutData
    put_at: datetime
    zone_version: str  # of the time zone database by which `next_at` was planned
    paused: bool = False
    next_at: datetime | None = None  # the next nominal time
    wake_at: datetime | None = None
    last_at: datetime | None = None  # the last nominal time that was decided
    runs: int = 0  # jobs that its ticks have asked for
    waiting: int = 0  # ticks that wait for the end of a job
    last_job_id: UUID | None = None  # kept where the choice about overlap needs it
    last_fired_at: datetime | None = None
    paused_why: str = ""  # as who has paused it says

    @property
    def name(self) -> str:
        """Its name."""
        return self.asked.name


@dataclass(frozen=True, slots=True, kw_only=True)
class TickRow:
    """One nominal time of a schedule and what became of it; never changed again but for its publishing, and
    when the time of a waiting one has come."""

    schedule: str
    nominal_at: datetime
    fate: TickStatus
    due_at: datetime
    decided_at: datetime
    reason: str = ""
    job_id: UUID | None = None
    fired_at: datetime | None = None  # the broker has confirmed its request
    wake_at: datetime | None = None  # not confirmed by then: published again
    request: str | None = None  # the event that asks for its job, until that is confirmed

    @property
    def key(self) -> tuple[str, datetime]:
        """What is unique."""
        return self.schedule, self.nominal_at


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule that somebody must look at, and what a decision about it needs to know."""

    row: ScheduleRow
    last_job: JobState | None = None  # None: there is no such job, or it does not matter
    oldest_waiting: datetime | None = None
    last_success: datetime | None = None  # where its arguments name it
    arrivals: "tuple[ArrivalRow, ...]" = ()  # what it has waited for and is open


@dataclass(frozen=True, slots=True)
class Advance:
    """How far a schedule has come, and the ticks that were decided on the way."""

    row: ScheduleRow
    ticks: tuple[TickRow, ...] = ()
    settled: "tuple[ArrivalOutcome, ...]" = ()  # what has become of arrivals

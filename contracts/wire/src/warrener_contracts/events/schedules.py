"""Schedules: commands to them, and the outcome of each tick."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, model_validator

from warrener_contracts.events.commands import CommandData
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import ANYONE, SCHEDULER, SCHEDULER_COMMAND, Event, Route
from warrener_contracts.events.schedule_definition import ScheduleName, SchedulePutData
from warrener_contracts.fields import ReplyAddress, Sentence, Timestamp, optional_field
from warrener_contracts.schedule_words import TickStatus
from warrener_contracts.topology import COMMANDS, EVENTS

MAX_BACKFILL_TICKS = 50_000
"""Nominal times of one backfill; a longer span needs several."""


class SchedulePut(Event[SchedulePutData], frozen=True, route=SCHEDULER_COMMAND):
    """Creates or replaces a schedule. The one with the latest `time` counts; a repeat changes nothing."""

    type: Literal["schedule.put.v1"] = "schedule.put.v1"


class ScheduleCommandData(CommandData, frozen=True):
    """The schedule of this name."""

    name: ScheduleName
    reason: Sentence = "requested"


class SchedulePauseRequested(Event[ScheduleCommandData], frozen=True, route=SCHEDULER_COMMAND):
    """Pauses a schedule: its ticks are skipped, and recorded as such, until it is resumed."""

    type: Literal["schedule.pause_requested.v1"] = "schedule.pause_requested.v1"


class ScheduleResumeRequested(Event[ScheduleCommandData], frozen=True, route=SCHEDULER_COMMAND):
    """Resumes a paused schedule from its next tick on."""

    type: Literal["schedule.resume_requested.v1"] = "schedule.resume_requested.v1"


class ScheduleRemoveRequested(Event[ScheduleCommandData], frozen=True, route=SCHEDULER_COMMAND):
    """Removes a schedule; its tick history stays."""

    type: Literal["schedule.remove_requested.v1"] = "schedule.remove_requested.v1"


class ScheduleTriggerRequested(Event[ScheduleCommandData], frozen=True, route=SCHEDULER_COMMAND):
    """Requests a schedule's job now, beside its ticks. A repeat of the event requests the same job."""

    type: Literal["schedule.trigger_requested.v1"] = "schedule.trigger_requested.v1"


class ScheduleBackfillRequestedData(EventData, frozen=True):
    """Request the missing jobs of a schedule's nominal times from `start` to `end`, both included."""

    name: ScheduleName
    start: Timestamp
    end: Timestamp = Field(description="Future ticks, and those the clock has yet to decide, are left out.")
    rate: Annotated[float, Field(gt=0, le=1000, description="Jobs a second.")] = 10.0
    reason: Sentence = "requested"
    not_before: Timestamp | None = optional_field(
        "Time of its first job; set when a scheduler continues a backfill."
    )
    reply_to: ReplyAddress | None = optional_field(
        "Reply address for command.handled, or for job.rejected if there is no such schedule."
    )

    @model_validator(mode="after")
    def _in_order(self) -> "ScheduleBackfillRequestedData":
        if self.end < self.start:
            raise ValueError(f"expected an end that is not before {self.start}, got {self.end}")
        return self


class ScheduleBackfillRequested(
    Event[ScheduleBackfillRequestedData],
    frozen=True,
    route=Route(COMMANDS, "{event}", (ANYONE, SCHEDULER), (SCHEDULER,)),
):
    """Requests the jobs of past ticks. Each has the id that its tick gives it, so repeats make no second job.

    The scheduler sends the rest of a long backfill to itself.
    """

    type: Literal["schedule.backfill_requested.v1"] = "schedule.backfill_requested.v1"


class ScheduleTickedData(EventData, frozen=True):
    """The outcome of one nominal time of a schedule."""

    name: ScheduleName = Field(description="The schedule: dotted words.")
    nominal_at: Timestamp
    status: TickStatus = Field(description="The outcome of the tick.")
    reason: Sentence = Field(default="", description="Why, unless it fired as planned.")
    job_id: UUID | None = Field(default=None, description="The job that it requested.")
    late_seconds: float = Field(default=0.0, description="Time from its due moment to its decision.")


class ScheduleTicked(
    Event[ScheduleTickedData],
    frozen=True,
    route=Route(EVENTS, "{event}.{status}.{name}", (SCHEDULER,), (ANYONE,)),
):
    """The outcome of a tick. Repeats, such as after the death of a scheduler, keep the id."""

    type: Literal["schedule.ticked.v1"] = "schedule.ticked.v1"

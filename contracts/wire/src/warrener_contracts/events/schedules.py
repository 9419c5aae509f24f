"""Schedules: commands to them, and the outcome of each tick."""

from datetime import timedelta
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from warrener_contracts.events.commands import CommandData
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import ANYONE, SCHEDULER, Event
from warrener_contracts.events.examples import (
    ARGUMENTS,
    BY_SCHEDULER,
    NOON,
    OPERATIONS,
    OVERRIDES,
    SCHEDULE,
    at,
    envelope,
)
from warrener_contracts.events.schedule_definition import ScheduleName, SchedulePutData
from warrener_contracts.fields import (
    ReplyAddress,
    Sentence,
    Timestamp,
    is_unset,
)
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import CronRule, ScheduleChoices
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy, TickStatus
from warrener_contracts.topology import COMMANDS, EVENTS

MAX_BACKFILL_TICKS = 50_000
"""Nominal times of one backfill; a longer span needs several."""


class SchedulePut(
    Event[SchedulePutData],
    frozen=True,
    exchange=COMMANDS,
    key="schedule.put",
    sender=ANYONE,
    receiver=SCHEDULER,
):
    """Creates or replaces a schedule. The one with the latest `time` counts; a repeat changes nothing."""

    type: Literal["schedule.put.v1"] = "schedule.put.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(
            **envelope(52, OPERATIONS, 10, SCHEDULE),
            data=SchedulePutData(
                name=SCHEDULE,
                rule=CronRule(expression="30 * * * MON-FRI"),
                timezone="America/New_York",
                job_type="flights.load",
                arguments=ARGUMENTS,
                queue="loading",
                policy=OVERRIDES,
                choices=ScheduleChoices(
                    misfire=MisfirePolicy.WINDOW,
                    catch_up_window=timedelta(hours=2),
                    overlap=OverlapPolicy.QUEUE_ONE,
                    jitter=timedelta(seconds=5),
                    start=NOON,
                    end=at(31_536_000),
                    max_runs=5000,
                ),
                reply_to="operations-desk-4",
                checked=True,
            ),
        )


class ScheduleCommandData(CommandData, frozen=True):
    """The schedule of this name."""

    name: ScheduleName
    reason: Sentence = "requested"


def _example_command() -> ScheduleCommandData:
    return ScheduleCommandData(name=SCHEDULE, reason="the airport is closed", reply_to="operations-desk-4")


class SchedulePauseRequested(
    Event[ScheduleCommandData],
    frozen=True,
    exchange=COMMANDS,
    key="schedule.pause_requested",
    sender=ANYONE,
    receiver=SCHEDULER,
):
    """Pauses a schedule: its ticks are skipped, and recorded as such, until it is resumed."""

    type: Literal["schedule.pause_requested.v1"] = "schedule.pause_requested.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(**envelope(53, OPERATIONS, 10, SCHEDULE), data=_example_command())


class ScheduleResumeRequested(
    Event[ScheduleCommandData],
    frozen=True,
    exchange=COMMANDS,
    key="schedule.resume_requested",
    sender=ANYONE,
    receiver=SCHEDULER,
):
    """Resumes a paused schedule from its next tick on."""

    type: Literal["schedule.resume_requested.v1"] = "schedule.resume_requested.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(**envelope(54, OPERATIONS, 10, SCHEDULE), data=_example_command())


class ScheduleRemoveRequested(
    Event[ScheduleCommandData],
    frozen=True,
    exchange=COMMANDS,
    key="schedule.remove_requested",
    sender=ANYONE,
    receiver=SCHEDULER,
):
    """Removes a schedule; its tick history stays."""

    type: Literal["schedule.remove_requested.v1"] = "schedule.remove_requested.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(**envelope(55, OPERATIONS, 10, SCHEDULE), data=_example_command())


class ScheduleTriggerRequested(
    Event[ScheduleCommandData],
    frozen=True,
    exchange=COMMANDS,
    key="schedule.trigger_requested",
    sender=ANYONE,
    receiver=SCHEDULER,
):
    """Requests a schedule's job now, beside its ticks. A repeat of the event requests the same job."""

    type: Literal["schedule.trigger_requested.v1"] = "schedule.trigger_requested.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(**envelope(56, OPERATIONS, 10, SCHEDULE), data=_example_command())


class ScheduleBackfillRequestedData(EventData, frozen=True):
    """Request the missing jobs of a schedule's nominal times from `start` to `end`, both included."""

    name: ScheduleName
    start: Timestamp
    end: Timestamp = Field(description="Future ticks, and those the clock has yet to decide, are left out.")
    rate: Annotated[float, Field(gt=0, le=1000, description="Jobs a second.")] = 10.0
    reason: Sentence = "requested"
    not_before: Timestamp | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Time of its first job; set when a scheduler continues a backfill.",
    )
    reply_to: ReplyAddress | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Reply address for command.handled, or for job.rejected if there is no such schedule.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> "ScheduleBackfillRequestedData":
        if self.end < self.start:
            raise ValueError(f"expected an end that is not before {self.start}, got {self.end}")
        return self


class ScheduleBackfillRequested(
    Event[ScheduleBackfillRequestedData],
    frozen=True,
    exchange=COMMANDS,
    key="schedule.backfill_requested",
    sender=(ANYONE, SCHEDULER),
    receiver=SCHEDULER,
):
    """Requests the jobs of past ticks. Each has the id that its tick gives it, so repeats make no second job.

    The scheduler sends the rest of a long backfill to itself.
    """

    type: Literal["schedule.backfill_requested.v1"] = "schedule.backfill_requested.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(
            **envelope(65, OPERATIONS, 10, SCHEDULE),
            data=ScheduleBackfillRequestedData(
                name=SCHEDULE,
                start=at(-86_400),
                end=NOON,
                rate=2.5,
                reason="the files of the day were mended",
                not_before=at(60),
                reply_to="operations-desk-4",
            ),
        )


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
    exchange=EVENTS,
    key="schedule.ticked.{status}.{name}",
    sender=SCHEDULER,
    receiver=ANYONE,
):
    """The outcome of a tick. Repeats, such as after the death of a scheduler, keep the id."""

    type: Literal["schedule.ticked.v1"] = "schedule.ticked.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(
            **envelope(57, BY_SCHEDULER, 1800.004, SCHEDULE),
            data=ScheduleTickedData(
                name=SCHEDULE,
                nominal_at=at(1800),
                status=TickStatus.CAUGHT_UP,
                reason="it was due while no scheduler ran",
                job_id=tick_job_id(SCHEDULE, at(1800)),
                late_seconds=0.004,
            ),
        )

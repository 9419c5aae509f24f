"""What anyone may ask of a schedule (exchange `warrener.requests`), and what is told of its ticks
(`warrener.events`)."""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import (
    JobType,
    JsonSafeObject,
    QueueName,
    ReplyAddress,
    Sentence,
    Timestamp,
)
from warrener_contracts.omit_defaults import is_unset
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.schedule_rules import Rule, ScheduleChoices

ScheduleName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=120)]
"""Dotted words, as a job type: they become part of a routing key."""

CODE_OWNER = "code"
"""The owner of what is declared in an agent's code."""

ZoneName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$", max_length=64, examples=["Europe/Berlin"])
]


class SchedulePutData(EventData, frozen=True):
    """This schedule shall be as it is said here, whether it was there before or not."""

    name: ScheduleName
    rule: Rule
    timezone: ZoneName = Field(default="UTC", description="A name of the IANA time zone database.")
    job_type: JobType
    arguments: JsonSafeObject = Field(default_factory=dict)
    queue: QueueName | None = Field(default=None, description="None: the queue that the job type declares.")
    policy: PolicyOverrides | None = Field(default=None, description="What its jobs choose for themselves.")
    choices: ScheduleChoices = ScheduleChoices()
    reply_to: ReplyAddress | None = Field(
        default=None, description="Where a job.rejected goes if it cannot be kept."
    )
    owner: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=60)] | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Who keeps it, such as a file of schedules; `code`: it is declared by an agent.",
    )


class SchedulePut(Event[SchedulePutData], frozen=True):
    """The last one by its `time` counts; one that says nothing new changes nothing."""

    type: Literal["schedule.put.v1"] = "schedule.put.v1"


class ScheduleCommandData(EventData, frozen=True):
    """The schedule of this name."""

    name: ScheduleName
    reason: Sentence = "asked for"


class SchedulePauseRequested(Event[ScheduleCommandData], frozen=True):
    """Its ticks are skipped until it is resumed; each of them is in the ledger."""

    type: Literal["schedule.pause_requested.v1"] = "schedule.pause_requested.v1"


class ScheduleResumeRequested(Event[ScheduleCommandData], frozen=True):
    """It ticks again, from the next tick on."""

    type: Literal["schedule.resume_requested.v1"] = "schedule.resume_requested.v1"


class ScheduleRemoveRequested(Event[ScheduleCommandData], frozen=True):
    """It ticks no more; its ledger stays."""

    type: Literal["schedule.remove_requested.v1"] = "schedule.remove_requested.v1"


class ScheduleTriggerRequested(Event[ScheduleCommandData], frozen=True):
    """Ask for its job now, beside its ticks. A repeat of the event asks for the same job."""

    type: Literal["schedule.trigger_requested.v1"] = "schedule.trigger_requested.v1"


class TickStatus(StrEnum):
    """What became of a tick."""

    FIRED = "fired"
    CAUGHT_UP = "caught_up"  # fired though it was missed
    COALESCED = "coalesced"  # a later tick stands for it
    SKIPPED = "skipped"
    WAITING = "waiting"  # for the end of an earlier tick's job
    TRIGGERED = "triggered"  # somebody asked for it


class ScheduleTickedData(EventData, frozen=True):
    """What became of one nominal time of a schedule."""

    name: ScheduleName
    nominal_at: Timestamp
    fate: TickStatus
    reason: Sentence = Field(default="", description="Why, where it is not plain.")
    job_id: UUID | None = Field(default=None, description="The job that it asked for.")
    late_seconds: float = Field(default=0.0, description="From when it was due until it was decided.")


class ScheduleTicked(Event[ScheduleTickedData], frozen=True):
    """Told again under the same id if a scheduler dies in between."""

    type: Literal["schedule.ticked.v1"] = "schedule.ticked.v1"

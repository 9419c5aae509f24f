"""The definition of a schedule: the data of `schedule.put`, which stores keep without the event."""

from typing import Annotated

from pydantic import Field

from warrener_contracts.events.data import EventData
from warrener_contracts.fields import JobType, JsonSafeObject, QueueName, ReplyAddress, is_unset
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.schedule_rules import Rule, ScheduleChoices

ScheduleName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=120)]
"""Dotted words, as a job type: a schedule's name is part of a routing key."""

CODE_OWNER = "code"
"""The owner of schedules that are declared in an agent's code."""

ZoneName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$", max_length=64, examples=["Europe/Berlin"])
]


class SchedulePutData(EventData, frozen=True):
    """Create or replace a schedule."""

    name: ScheduleName
    rule: Rule
    timezone: ZoneName = Field(default="UTC", description="A name of the IANA time zone database.")
    job_type: JobType
    arguments: JsonSafeObject = Field(default_factory=dict)
    queue: QueueName | None = Field(default=None, description="None: the queue that the job type declares.")
    policy: PolicyOverrides | None = Field(default=None, description="Overrides for its jobs.")
    choices: ScheduleChoices = ScheduleChoices()
    reply_to: ReplyAddress | None = Field(
        default=None,
        description="Reply address for command.handled, or for job.rejected if the schedule is not valid.",
    )
    checked: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="True: refuse it if no agent has announced its job type, or that refuses its arguments.",
    )
    owner: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=60)] | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Its manager, such as a file of schedules; `code`: an agent declares it.",
    )

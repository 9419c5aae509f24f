"""Asking for the jobs of ticks that are past (exchange `warrener.requests`)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import ReplyAddress, Sentence, Timestamp
from warrener_contracts.events.schedules import ScheduleName
from warrener_contracts.omit_defaults import is_unset

MAX_BACKFILL_TICKS = 50_000
"""Nominal times of one span: more are asked for one span after the other."""


class ScheduleBackfillRequestedData(EventData, frozen=True):
    """The nominal times of a schedule from `begin` to `end`, both included, that have no job yet."""

    name: ScheduleName
    begin: Timestamp
    end: Timestamp = Field(
        description="Later ones than the present, and what the clock has yet to decide, are left."
    )
    rate: Annotated[float, Field(gt=0, le=1000, description="Jobs a second.")] = 10.0
    reason: Sentence = "asked for"
    not_before: Timestamp | None = Field(
        default=None,
        exclude_if=is_unset,
        description="When its first job is asked for; set where a scheduler goes on with the rest.",
    )
    reply_to: ReplyAddress | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Where a job.rejected goes if there is no such schedule.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> "ScheduleBackfillRequestedData":
        if self.end < self.begin:
            raise ValueError(f"expected an end that is not before {self.begin}, got {self.end}")
        return self


class ScheduleBackfillRequested(Event[ScheduleBackfillRequestedData], frozen=True):
    """Ask for the jobs of past ticks. The job of a tick has the id that it would have had, so that a repeat
    asks for nothing twice."""

    type: Literal["schedule.backfill_requested.v1"] = "schedule.backfill_requested.v1"

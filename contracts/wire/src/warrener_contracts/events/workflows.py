"""The journal of a workflow: what its turns have called, and the answers that they were given.

A workflow is a job whose handler waits for other jobs. Each attempt of it is a turn: the handler runs
from its beginning with all earlier answers, one at a time in the order of the journal, and the turn ends
once it waits for something that is not there yet (`attempt.suspended`).
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts import fields
from warrener_contracts.events.commands import CommandData
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import SUPERVISOR_COMMAND, Event
from warrener_contracts.events.errors import ErrorInfo
from warrener_contracts.state_machine import JobState

CallId = Annotated[
    str, Field(min_length=1, max_length=200, description="Identifies the call: the same in every turn.")
]
MAX_SIGNAL_NAME: Final = 100  # characters; also of the name of a change
MAX_ANSWER: Final = 64 * 1024
"""Bytes of JSON of one result, or of the data of a signal: the journal travels with each turn."""
SignalName = Annotated[str, Field(min_length=1, max_length=MAX_SIGNAL_NAME, examples=["packed"])]


class CallKind(StrEnum):
    """The kind of end that a call of a workflow waits for; for a marker it does not wait."""

    JOB = "job"  # the end of a child job
    STEP = "step"  # a function that the agent runs
    SIGNAL = "signal"  # the next signal of a name
    MARKER = "marker"  # a change of the code that this job has met (`flow.changed`)


class UndoRequest(EventData, frozen=True):
    """The job that undoes a call, requested if the workflow does not succeed."""

    job_type: fields.JobType
    arguments: fields.JsonObject = Field(default_factory=dict)
    queue: fields.QueueName | None = fields.optional_field("None: the queue that the job type declares.")


class Call(EventData, frozen=True):
    """Something that a workflow waits for, or a marker in its journal."""

    call_id: CallId
    kind: CallKind
    name: str = Field(
        min_length=1,
        max_length=200,
        description="The job type, the signal, the function of the step, or the change.",
    )
    digest: str = Field(
        default="",
        max_length=64,
        exclude_if=fields.is_unset,
        description="Of its arguments. Another digest under the same id is changed code.",
    )
    line: fields.Sentence = Field(
        default="", exclude_if=fields.is_unset, description="Where the code calls, such as orders.py:41."
    )
    job_id: UUID | None = fields.optional_field("The child job.")
    undo: UndoRequest | None = fields.optional_field("What undoes it.")
    detached: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="True if the child job goes on when the workflow ends; any other is cancelled then.",
    )


class Answer(EventData, frozen=True):
    """The end of a call that a workflow has waited for, or only the time that has come."""

    call_id: CallId | None = fields.optional_field("None: no call has ended, the time of a wait has come.")
    at: fields.Timestamp = Field(description="The time that the workflow sees.")
    state: JobState | None = fields.optional_field("How the child job ended.")
    result: Any = Field(
        default=None,
        exclude_if=fields.is_none,
        description="Any JSON value: the result of the job or the step, the data of the signal.",
    )
    error: ErrorInfo | None = fields.optional_field("Why the child job or the step did not succeed.")
    signal_id: str | None = fields.optional_field(
        "The id of the signal's event, or a UUIDv5 of its source and id if that is no UUID."
    )


class Suspension(EventData, frozen=True):
    """The calls and answers that a turn adds to the journal when it ends."""

    calls: tuple[Call, ...] = Field(
        default=(), exclude_if=fields.is_unset, description="New calls, in their order."
    )
    closed: tuple[CallId, ...] = Field(
        default=(), exclude_if=fields.is_unset, description="Calls that nothing awaits any longer."
    )
    answers: tuple[Answer, ...] = Field(
        default=(), exclude_if=fields.is_unset, description="Of the steps that the agent ran, in their order."
    )
    began_at: fields.Timestamp | None = fields.optional_field("Of the first turn: the time that it saw.")
    wake_at: fields.Timestamp | None = fields.optional_field("When its next timer is due.")
    timer_line: fields.Sentence | None = fields.optional_field("Where the code waits for that time.")


class Turn(EventData, frozen=True):
    """One turn: the answers with which it began, and its suspension, unless it came to another end."""

    attempt: fields.AttemptNumber
    answers: tuple[Answer, ...] = Field(default=(), exclude_if=fields.is_unset)
    suspension: Suspension | None = fields.optional_field("None: it runs, or did not end with a suspension.")


class Journal(EventData, frozen=True):
    """All turns of a workflow until now, in order."""

    turns: tuple[Turn, ...] = ()


class JobSignalRequestedData(CommandData, frozen=True):
    """Send a signal to a workflow. The event's source and `id` make it: a repeat is the same signal."""

    job_id: UUID
    name: SignalName
    data: Any = Field(default=None, description="Any JSON value; the workflow checks it.")


class JobSignalRequested(Event[JobSignalRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Sends a signal to a workflow, which receives those of one name in their order. One that comes before
    it is awaited is stored; one that comes after the end is refused."""

    type: Literal["job.signal_requested.v1"] = "job.signal_requested.v1"


class HeldAction(StrEnum):
    """The end of a hold."""

    RESUME = "resume"  # its last turn is tried again
    UNDO = "undo"  # its calls are undone, then it is dead


class JobContinueRequestedData(CommandData, frozen=True):
    """End the hold of a workflow that has failed."""

    job_id: UUID
    action: HeldAction


class JobContinueRequested(Event[JobContinueRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Resumes a held workflow, or has its calls undone. A workflow that is not held stays as it is; one that
    has ended refuses."""

    type: Literal["job.continue_requested.v1"] = "job.continue_requested.v1"

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
MAX_MEMBERS: Final = 500
"""Jobs of one batch of a map."""
MAX_MEMBER_FAILURES: Final = 100
MAX_PAGE: Final = 256 * 1024
"""Bytes of JSON of a page of results, but for a single one that is larger."""
MAX_PAGES: Final = 4
"""Pages with which one turn begins."""
SignalName = Annotated[str, Field(min_length=1, max_length=MAX_SIGNAL_NAME, examples=["packed"])]


class CallKind(StrEnum):
    """The kind of end that a call of a workflow waits for; for a marker, or to send, it does not wait."""

    JOB = "job"  # the end of a child job
    MAP = "map"  # the ends of many child jobs of one type: a batch of a map
    PAGE = "page"  # a page of results, which comes with the dispatch of the next turn alone
    STEP = "step"  # a function that the agent runs
    SIGNAL = "signal"  # the next signal of a name
    SEND = "send"  # a signal that it sends, which has no answer
    MARKER = "marker"  # a change of the code that this job has met (`flow.changed`)


class UndoRequest(EventData, frozen=True):
    """The job that undoes a call, requested if the workflow does not succeed."""

    job_type: fields.JobType
    arguments: fields.JsonObject = Field(default_factory=dict)
    queue: fields.QueueName | None = fields.optional_field("None: the queue that the job type declares.")


class PageSource(EventData, frozen=True):
    """The results of which a page is read: a list that is the result of one job, or those of a batch."""

    call_id: CallId = Field(description="The call that has made the job, or the batch.")
    job_id: UUID | None = fields.optional_field("The job whose result is a list.")
    size: int | None = Field(
        default=None, ge=1, le=MAX_MEMBERS, exclude_if=fields.is_none, description="Of the batch."
    )
    first: int = Field(default=0, ge=0, exclude_if=fields.is_zero, description="Where the page begins.")


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
    size: int | None = Field(
        default=None,
        ge=1,
        le=MAX_MEMBERS,
        exclude_if=fields.is_none,
        description="Of a batch of a map: the number of its jobs. Ids derive from `call_id/0` and so on.",
    )
    stop_after: int | None = Field(
        default=None,
        ge=1,
        exclude_if=fields.is_none,
        description="Of a batch: all of its map are answered once so many jobs of the map have failed.",
    )
    by_reference: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="True if the result of the child job stays out of the journal, and pages of it are read.",
    )
    source: PageSource | None = fields.optional_field("Of a page: what it is of.")
    page: CallId | None = fields.optional_field("Of a step: the page that it reads.")
    undo: UndoRequest | None = fields.optional_field("What undoes it.")
    detached: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="True if the child job goes on when the workflow ends; any other is cancelled then.",
    )
    retry_of: UUID | None = fields.optional_field(
        "The child job that failed, and in whose place an operator had this one requested. Not in the "
        "journals of dispatches."
    )

    @property
    def undo_key(self) -> str:
        """Identifies the undo of the call: each of its child jobs may have had an effect."""
        return self.call_id if self.retry_of is None else f"{self.call_id}~{self.job_id}"


class MemberFailure(EventData, frozen=True):
    """A job of a map's batch that did not succeed."""

    number: int = Field(ge=0, description="Its place in the batch, from 0.")
    state: JobState
    error: ErrorInfo | None = fields.optional_field("Why it did not succeed.")


class MembersEnd(EventData, frozen=True):
    """The ends of the jobs of a map's batch: of all, unless its map has stopped (`stop_after`)."""

    succeeded: int = Field(ge=0)
    failed: int = Field(default=0, ge=0, exclude_if=fields.is_zero)
    failures: tuple[MemberFailure, ...] = Field(
        default=(),
        max_length=MAX_MEMBER_FAILURES,
        exclude_if=fields.is_unset,
        description="The first of those that failed, in the order of items.",
    )
    results: tuple[Any, ...] | None = fields.optional_field(
        "Of each job in the order of items, null for one that failed. Absent if they are too long together."
    )


class PageSize(EventData, frozen=True):
    """The number of items of a page, and of all those that it is of."""

    size: int = Field(ge=0, le=MAX_MEMBERS)
    total: int = Field(ge=0)


class Answer(EventData, frozen=True):
    """The end of a call that a workflow has waited for, or only the time that has come."""

    call_id: CallId | None = fields.optional_field("None: no call has ended, the time of a wait has come.")
    at: fields.Timestamp = Field(description="The time that the workflow sees.")
    state: JobState | None = fields.optional_field("How the child job ended.")
    members: MembersEnd | None = fields.optional_field("How the jobs of a map's batch ended.")
    page: PageSize | None = fields.optional_field("The page, without its items.")
    result: Any = Field(
        default=None,
        exclude_if=fields.is_none,
        description="Any JSON value: the result of the job or the step, the data of the signal.",
    )
    error: ErrorInfo | None = fields.optional_field("Why the child job or the step did not succeed.")
    tries: int = Field(
        default=1, ge=1, exclude_if=lambda value: value == 1, description="How often the step was tried."
    )
    signal_id: str | None = fields.optional_field(
        "The id of the signal's event, or a UUIDv5 of its source and id if that is no UUID."
    )


class StepRetry(EventData, frozen=True):
    """A step that has failed and is tried again: it has no answer yet."""

    call_id: CallId
    tries: int = Field(ge=1, description="How often it was tried.")
    retry_at: fields.Timestamp
    error: fields.Sentence = Field(default="", exclude_if=fields.is_unset)


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
    retries: tuple[StepRetry, ...] = Field(
        default=(), exclude_if=fields.is_unset, description="Steps that failed, and are tried again later."
    )
    began_at: fields.Timestamp | None = fields.optional_field("Of the first turn: the time that it saw.")
    wake_at: fields.Timestamp | None = fields.optional_field("When its next timer is due.")
    timer_line: fields.Sentence | None = fields.optional_field("Where the code waits for that time.")
    continued: fields.JsonObject | None = fields.optional_field(
        "The arguments with which the workflow begins another generation: its journal is empty again."
    )
    awaits_these: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="True if it waits for nothing but child jobs among `calls`, and its timer: nothing "
        "else of the journal has to be read. Not stored.",
    )


class Turn(EventData, frozen=True):
    """One turn: the answers with which it began, and its suspension, unless it came to another end."""

    attempt: fields.AttemptNumber
    answers: tuple[Answer, ...] = Field(default=(), exclude_if=fields.is_unset)
    suspension: Suspension | None = fields.optional_field("None: it runs, or did not end with a suspension.")


class Journal(EventData, frozen=True):
    """All turns of a workflow until now, in order; of one that went on by `continue_as`, those of its last
    generation."""

    generation: int = Field(
        default=0,
        ge=0,
        exclude_if=fields.is_zero,
        description="The attempt that ended the generation before; 0 for the first. Ids of calls begin with "
        "any other, and so ids of child jobs derive from it too.",
    )
    turns: tuple[Turn, ...] = ()
    size: int | None = Field(
        default=None,
        ge=0,
        exclude_if=fields.is_none,
        description="Bytes of JSON of the turns in a dispatch, so that its reader need not write them again.",
    )


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
    retry: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        default=(),
        max_length=100,
        exclude_if=fields.is_unset,
        description="For a resume: failed calls whose child jobs are requested again first, each by its "
        "call_id, its child job, or the job type for those that failed last.",
    )


class JobContinueRequested(Event[JobContinueRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Resumes a held workflow, or has its calls undone. A workflow that is not held stays as it is; one that
    has ended refuses."""

    type: Literal["job.continue_requested.v1"] = "job.continue_requested.v1"

"""What becomes of attempts (exchange `warrener.status`), and which agents live (`warrener.heartbeats`)."""

from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.durations import MAX_DURATION
from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import (
    AgentId,
    AttemptNumber,
    JobType,
    QueueName,
    Sentence,
    StackTrace,
    Timestamp,
)
from warrener_contracts.events.flight_record import FlightRecord
from warrener_contracts.omit_defaults import is_unset, is_zero


class ErrorKind(StrEnum):
    """What kind of failure: it decides who is to blame and whether a retry may help."""

    ERROR = "error"  # the handler raised
    TIMEOUT = "timeout"  # it ran too long
    CRASH = "crash"  # its executor died
    BAD_ARGUMENTS = "bad_arguments"  # the handler's signature refused them
    BAD_RESULT = "bad_result"  # what it returned is not what it declared, or cannot be sent
    LOST = "lost"  # its agent fell silent
    NOT_STARTED = "not_started"  # no agent took it in time


class ErrorInfo(EventData, frozen=True):
    """A failure as a person wants to read it."""

    kind: ErrorKind
    type: Sentence = Field(description="The exception's class, or what ended its process, or the kind again.")
    message: Sentence
    stack: StackTrace | None = None
    retryable: bool = Field(default=True, description="False: no retry can mend it.")
    flight_record: FlightRecord | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Where it was stopped, or its process died: what was seen of it before.",
    )
    by_class: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="It is called not retryable for its class, by the policy of its job type: "
        "the policy of the job decides.",
    )
    bases: tuple[Sentence, ...] = Field(
        default=(),
        max_length=20,
        exclude_if=is_unset,
        description="The classes that the exception's class derives from, the nearest first.",
    )
    deaths: tuple[Sentence, ...] = Field(
        default=(),
        exclude_if=is_unset,
        description="How attempts of the job have ended with their executor or their agent so far: "
        "said by the supervisor.",
    )
    deaths_unnamed: int = Field(
        default=0,
        ge=0,
        exclude_if=is_zero,
        description="So many more of `deaths` there were, after the first of those that are named.",
    )


class AttemptData(EventData, frozen=True):
    """Which attempt, and whose word it is. A result counts only from the current attempt."""

    job_id: UUID
    attempt: AttemptNumber
    job_type: JobType
    agent_id: AgentId


class AttemptStartedData(AttemptData, frozen=True):
    """It runs. Sent for attempts that outlive a short announcement delay, and at once for exclusive ones."""

    started_at: Timestamp


class AttemptStarted(Event[AttemptStartedData], frozen=True):
    """`attempt.started.<job type>`."""

    type: Literal["attempt.started.v1"] = "attempt.started.v1"


class AttemptProgressedData(AttemptData, frozen=True):
    """How far it is: `fraction` of 1, and a word about it."""

    fraction: float = Field(ge=0.0, le=1.0)
    note: Sentence = ""


class AttemptProgressed(Event[AttemptProgressedData], frozen=True):
    """`attempt.progressed.<job type>`."""

    type: Literal["attempt.progressed.v1"] = "attempt.progressed.v1"


class AttemptEndedData(AttemptData, frozen=True):
    """When it ran."""

    started_at: Timestamp
    finished_at: Timestamp


class AttemptSucceededData(AttemptEndedData, frozen=True):
    """The recorded result. `recorded_attempt` differs from `attempt` where an earlier attempt had completed
    and its word was lost: the work is not done twice, its outcome is told again."""

    result: Any = Field(default=None, description="Any JSON value.")
    recorded_attempt: AttemptNumber
    follow_ups: int = Field(default=0, ge=0, description="How many jobs the handler asked for.")


class AttemptSucceeded(Event[AttemptSucceededData], frozen=True):
    """`attempt.succeeded.<job type>`."""

    type: Literal["attempt.succeeded.v1"] = "attempt.succeeded.v1"


class AttemptFailedData(AttemptEndedData, frozen=True):
    """It ran and did not succeed; nothing of its transaction stays."""

    error: ErrorInfo
    retry_after_seconds: float | None = Field(
        default=None, ge=0, le=MAX_DURATION.total_seconds(), description="The handler's own wish."
    )
    snoozed: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="Nothing went wrong: the handler asks to be run again after retry_after_seconds, "
        "and it is not charged.",
    )


class AttemptFailed(Event[AttemptFailedData], frozen=True):
    """`attempt.failed.<job type>`."""

    type: Literal["attempt.failed.v1"] = "attempt.failed.v1"


class AttemptCancelledData(AttemptEndedData, frozen=True):
    """It was stopped because somebody asked, or its handler has ended the job itself."""

    reason: Sentence
    by_handler: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="Its handler wants the job to end cancelled; nobody else has asked.",
    )
    flight_record: FlightRecord | None = Field(
        default=None, exclude_if=is_unset, description="What was seen of it before it was stopped."
    )


class AttemptCancelled(Event[AttemptCancelledData], frozen=True):
    """`attempt.cancelled.<job type>`."""

    type: Literal["attempt.cancelled.v1"] = "attempt.cancelled.v1"


class AttemptReleasedData(AttemptData, frozen=True):
    """The agent gives it back unharmed, as when it drains; not charged."""

    reason: Sentence


class AttemptReleased(Event[AttemptReleasedData], frozen=True):
    """`attempt.released.<job type>`."""

    type: Literal["attempt.released.v1"] = "attempt.released.v1"


class AttemptTimedOutData(AttemptData, frozen=True):
    """The watchdog's word: it has run longer than its timeout and its agent has not said so."""

    timeout_seconds: float = Field(ge=0)


class AttemptTimedOut(Event[AttemptTimedOutData], frozen=True):
    """`attempt.timed_out.<job type>`."""

    type: Literal["attempt.timed_out.v1"] = "attempt.timed_out.v1"


class AttemptLostData(AttemptData, frozen=True):
    """There was no sign of it since `last_seen_at`: its agent is silent, or no longer lists it."""

    last_seen_at: Timestamp
    unlisted: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="True if the agent sends heartbeats, and they no longer list the attempt.",
    )


class AttemptLost(Event[AttemptLostData], frozen=True):
    """`attempt.lost.<job type>`."""

    type: Literal["attempt.lost.v1"] = "attempt.lost.v1"


class AttemptStartTimedOutData(AttemptData, frozen=True):
    """The watchdog's word: no agent has shown a sign of it, and the time for that is over."""

    dispatched_at: Timestamp | None = Field(
        default=None, description="None: it is not certain that it was dispatched at all."
    )


class AttemptStartTimedOut(Event[AttemptStartTimedOutData], frozen=True):
    """`attempt.overdue.<job type>`."""

    type: Literal["attempt.overdue.v1"] = "attempt.overdue.v1"


class JobDeadlinePassedData(EventData, frozen=True):
    """The watchdog's word: the job is not over, and its deadline is."""

    job_id: UUID
    deadline: Timestamp


class JobDeadlinePassed(Event[JobDeadlinePassedData], frozen=True):
    """`job.deadline_passed`."""

    type: Literal["job.deadline_passed.v1"] = "job.deadline_passed.v1"


class HeartbeatAttempt(EventData, frozen=True):
    """One line of a heartbeat."""

    job_id: UUID
    attempt: AttemptNumber


class AgentHeartbeatData(EventData, frozen=True):
    """This agent receives work; it renews the leases of what it runs."""

    agent_id: AgentId
    host: Sentence
    pid: int = Field(ge=0)
    queues: tuple[QueueName, ...]
    slots: int = Field(ge=0)
    running: tuple[HeartbeatAttempt, ...] = ()
    started_at: Timestamp
    draining: bool = False


class AgentHeartbeat(Event[AgentHeartbeatData], frozen=True):
    """`agent.<agent id>`; sent by the path that receives work, so a deaf agent falls silent."""

    type: Literal["agent.heartbeat.v1"] = "agent.heartbeat.v1"

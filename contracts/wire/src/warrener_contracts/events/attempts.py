"""Reports about attempts: those of agents, and those of the supervisor's watchdog."""

from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts import fields
from warrener_contracts.events.data import EventData
from warrener_contracts.events.dispatch import Checkpoint
from warrener_contracts.events.envelope import AGENT_REPORT, WATCHDOG_REPORT, Event
from warrener_contracts.events.errors import ErrorInfo, FlightRecord
from warrener_contracts.events.workflows import Suspension


class AttemptData(EventData, frozen=True):
    """The attempt and the agent that reports it. A result counts only from the current attempt."""

    job_id: UUID
    attempt: fields.AttemptNumber
    job_type: fields.JobType
    agent_id: fields.AgentId


class AttemptStartedData(AttemptData, frozen=True):
    """It runs. Sent for attempts that outlive a short announcement delay, and at once for exclusive ones."""

    started_at: fields.Timestamp


class AttemptStarted(Event[AttemptStartedData], frozen=True, route=AGENT_REPORT):
    """An attempt runs."""

    type: Literal["attempt.started.v1"] = "attempt.started.v1"


class AttemptProgressedData(AttemptData, frozen=True):
    """Its progress: `fraction` of 1, and a note."""

    fraction: float = Field(ge=0.0, le=1.0)
    note: fields.Sentence = ""


class AttemptProgressed(Event[AttemptProgressedData], frozen=True, route=AGENT_REPORT):
    """A handler reports its progress."""

    type: Literal["attempt.progressed.v1"] = "attempt.progressed.v1"


class AttemptCheckpointedData(AttemptData, frozen=True):
    """It has saved its state; also a sign of life."""

    saved_at: fields.Timestamp
    checkpoint: Checkpoint


class AttemptCheckpointed(Event[AttemptCheckpointedData], frozen=True, route=AGENT_REPORT):
    """A handler has saved its state; sent once the checkpoint is in the agent's ledger."""

    type: Literal["attempt.checkpointed.v1"] = "attempt.checkpointed.v1"


class AttemptEndedData(AttemptData, frozen=True):
    """The times of an attempt that ran."""

    started_at: fields.Timestamp
    finished_at: fields.Timestamp


class AttemptSucceededData(AttemptEndedData, frozen=True):
    """The recorded result. `recorded_attempt` differs from `attempt` if an earlier attempt had completed and
    its report was lost: the work is not repeated, its outcome is sent again."""

    result: Any = Field(default=None, description="Any JSON value.")
    recorded_attempt: fields.AttemptNumber
    child_jobs: int = Field(default=0, ge=0, description="Number of child jobs that the handler requested.")


class AttemptSucceeded(Event[AttemptSucceededData], frozen=True, route=AGENT_REPORT):
    """An attempt has succeeded, and the agent's ledger has recorded it."""

    type: Literal["attempt.succeeded.v1"] = "attempt.succeeded.v1"


class AttemptFailedData(AttemptEndedData, frozen=True):
    """It ran and did not succeed; its transaction was rolled back."""

    error: ErrorInfo
    retry_after_seconds: float | None = Field(
        default=None,
        ge=0,
        le=fields.MAX_DURATION.total_seconds(),
        description="The delay the handler requests.",
    )
    snoozed: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="No failure: the handler requests another run after retry_after_seconds, "
        "and it is not charged.",
    )


class AttemptFailed(Event[AttemptFailedData], frozen=True, route=AGENT_REPORT):
    """An attempt has failed, or its handler has snoozed."""

    type: Literal["attempt.failed.v1"] = "attempt.failed.v1"


class AttemptCancelledData(AttemptEndedData, frozen=True):
    """It was stopped on request, or its handler has ended the job itself."""

    reason: fields.Sentence
    by_handler: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="True if its handler ends the job as cancelled, and nobody else has requested it.",
    )
    flight_record: FlightRecord | None = fields.optional_field("Observations before it was stopped.")


class AttemptCancelled(Event[AttemptCancelledData], frozen=True, route=AGENT_REPORT):
    """An agent has stopped an attempt."""

    type: Literal["attempt.cancelled.v1"] = "attempt.cancelled.v1"


class AttemptSuspendedData(AttemptEndedData, frozen=True):
    """A turn of a workflow has ended: it waits."""

    suspension: Suspension


class AttemptSuspended(Event[AttemptSuspendedData], frozen=True, route=AGENT_REPORT):
    """A turn of a workflow has ended, and the broker has its requests. Charged to nobody."""

    type: Literal["attempt.suspended.v1"] = "attempt.suspended.v1"


class AttemptReleasedData(AttemptData, frozen=True):
    """The agent gives it back unharmed, as when it drains; not charged."""

    reason: fields.Sentence


class AttemptReleased(Event[AttemptReleasedData], frozen=True, route=AGENT_REPORT):
    """An agent gives an attempt back, uncharged."""

    type: Literal["attempt.released.v1"] = "attempt.released.v1"


class AttemptTimedOutData(AttemptData, frozen=True):
    """The watchdog reports an attempt that ran longer than its timeout without a report of its agent."""

    timeout_seconds: float = Field(ge=0)


class AttemptTimedOut(Event[AttemptTimedOutData], frozen=True, route=WATCHDOG_REPORT):
    """The watchdog reports an attempt that has run longer than its timeout."""

    type: Literal["attempt.timed_out.v1"] = "attempt.timed_out.v1"


class AttemptLostData(AttemptData, frozen=True):
    """No sign of the attempt since `last_seen_at`: its agent is silent, or no longer lists it."""

    last_seen_at: fields.Timestamp
    not_in_heartbeat: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="True if the agent sends heartbeats, and they no longer list the attempt.",
    )


class AttemptLost(Event[AttemptLostData], frozen=True, route=WATCHDOG_REPORT):
    """The supervisor reports an attempt whose agent is gone, or whose dispatch the broker gave up."""

    type: Literal["attempt.lost.v1"] = "attempt.lost.v1"


class AttemptStartTimedOutData(AttemptData, frozen=True):
    """The watchdog reports an attempt without a sign of any agent within its start timeout."""

    dispatched_at: fields.Timestamp | None = Field(
        default=None, description="None: the dispatch itself is not certain."
    )


class AttemptStartTimedOut(Event[AttemptStartTimedOutData], frozen=True, route=WATCHDOG_REPORT):
    """The watchdog reports an attempt that no agent has started in time."""

    type: Literal["attempt.start_timed_out.v1"] = "attempt.start_timed_out.v1"

"""What the scheduler and the supervisor hand to agents (exchange `warrener.dispatch`), and control."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData, Instant, JobType, JsonObject, QueueName
from warrener_contracts.policy import Duration, Guarantee


class AttemptDispatchedData(EventData):
    """Try this job. `attempt` is the fencing token: only the highest one counts."""

    job_id: UUID
    attempt: int = Field(ge=1)
    job_type: JobType
    queue: QueueName
    arguments: JsonObject
    guarantee: Guarantee = Guarantee.IDEMPOTENT
    timeout: Duration
    max_attempts: int
    deadline: Instant | None = None
    requested_at: Instant
    not_before: Instant | None = None  # when it waits in the delay ladder


class AttemptDispatched(Event[AttemptDispatchedData]):
    """May arrive more than once; the ledger lets one through."""

    type: Literal["attempt.dispatched.v1"] = "attempt.dispatched.v1"


class AttemptCancelData(EventData):
    """Stop what you run of this job, and do not start it any more. None: every attempt."""

    job_id: UUID
    attempt: int | None = None
    reason: str


class AttemptCancel(Event[AttemptCancelData]):
    """Control: `queue.<queue>` or `agent.<agent id>` of `warrener.control`."""

    type: Literal["attempt.cancel.v1"] = "attempt.cancel.v1"

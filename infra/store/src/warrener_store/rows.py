"""The rows of the state store as frozen values: what decisions are made from and what they make."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import AttemptDispatchedData, ErrorInfo, JobFinishedData, JsonObject
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.fast_dataclass import frozen_dataclass


@frozen_dataclass(
    frozen=True, kw_only=True
)  # no slots: a copy of all its fields is one step (`job_row.evolve`)
class JobRow:
    """One job. `version` grows by one with every change; a save counts only from the version before.

    `wake_at` is when somebody must look at it: the scheduler at what waits, the supervisor at the rest.
    None once it is over.
    """

    # What was asked for; never changes.
    job_id: UUID
    job_type: str
    queue: str
    arguments: JsonObject
    guarantee: Guarantee
    policy: JobPolicy
    source: str
    idempotency_key: str | None = None
    parent_id: UUID | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    requested_at: datetime
    accepted_at: datetime
    deadline_at: datetime | None = None
    fingerprint: str = ""  # of the request: the same id with another content is a conflict

    # What has become of it.
    version: int = 1
    state: JobState
    attempt: int = 0  # the current attempt, the fencing token; 0: none was dispatched
    failures: int = 0  # attempts charged to the job
    losses: int = 0  # attempts lost with their agent
    owner: str | None = None  # the agent that says it runs the current attempt
    watchers: tuple[str, ...] = ()  # reply addresses
    cancel_reason: str | None = None  # set: somebody asked to cancel it
    due_at: datetime | None = None  # when the current wait is over
    wake_at: datetime | None = None
    dispatched_at: datetime | None = None
    started_at: datetime | None = None  # of the current attempt
    lease_until: datetime | None = None  # the loss of what runs is not declared before (`running`)
    finished_at: datetime | None = None
    progress: float | None = None
    progress_note: str | None = None
    result: Any = None
    error: ErrorInfo | None = None  # of the last attempt that went wrong
    updated_at: datetime

    def finished_data(self) -> JobFinishedData:
        """What the world is told about a job that is over."""
        if self.finished_at is None:
            raise ValueError(f"expected a job that is over, got {self.job_id} in state {self.state}")
        return JobFinishedData(
            job_id=self.job_id,
            job_type=self.job_type,
            state=self.state,
            attempt=self.attempt,
            result=self.result,
            error=None if self.state is JobState.SUCCEEDED else self.error,
            parent_id=self.parent_id,
            requested_at=self.requested_at,
            finished_at=self.finished_at,
            reason=self.cancel_reason if self.state is JobState.CANCELLED else None,
        )

    def dispatched_data(self) -> AttemptDispatchedData:
        """What an agent is told of the current attempt; `not_before` where it is still to wait."""
        return AttemptDispatchedData(
            job_id=self.job_id,
            attempt=self.attempt,
            job_type=self.job_type,
            queue=self.queue,
            arguments=self.arguments,
            guarantee=self.guarantee,
            timeout=self.policy.timeout,
            max_attempts=self.policy.max_attempts,
            deadline=self.deadline_at,
            requested_at=self.requested_at,
            not_before=self.due_at if self.state is JobState.RETRYING else None,
        )


REQUEST_FIELDS = (
    "job_id",
    "job_type",
    "queue",
    "arguments",
    "guarantee",
    "policy",
    "source",
    "idempotency_key",
    "parent_id",
    "traceparent",
    "tracestate",
    "requested_at",
    "accepted_at",
    "deadline_at",
    "fingerprint",
)
"""The fields of a JobRow that are written once: what was asked for."""


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RELEASED = "released"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    NOT_STARTED = "not_started"
    SNOOZED = "snoozed"


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt that is over; written once, by the supervisor."""

    job_id: UUID
    attempt: int
    end: AttemptEnd
    agent_id: str | None
    dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime
    error: ErrorInfo | None
    verdict: str  # "done", "retry at …", "dead: …": what the supervisor made of it


class DeadLetterState(StrEnum):
    """What has been done about a dead letter."""

    OPEN = "open"  # nothing yet
    CLAIMED = "taken"  # a campaign will ask for it again
    REQUEUED = "asked"  # asked for again; that job is not over
    SUCCEEDED = "succeeded"  # the job asked for in its place has
    DIED_AGAIN = "returned"  # that job has died of the same cause; it has a dead letter of its own
    DIED = "died"  # that job has died of another cause; the same
    REOPENED = "ended"  # that job was cancelled, or its deadline passed
    REFUSED = "refused"  # its arguments are not what the job type asks for
    ALREADY_SUCCEEDED = "overtaken"  # the same request has succeeded since under another id
    DROPPED = "dropped"  # nobody will ask for it again

    @property
    def unresolved(self) -> bool:
        """Whether somebody should still do something about it."""
        return self in UNRESOLVED


UNRESOLVED = (DeadLetterState.OPEN, DeadLetterState.REOPENED, DeadLetterState.REFUSED)
"""Those that a campaign may take, in the order in which the index by cause names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A job whose attempts are used up, and what has been done about it since."""

    job_id: UUID
    job_type: str
    attempts: int
    reason: str
    error: ErrorInfo | None
    died_at: datetime
    fingerprint: str = ""  # of the cause; empty: it died before causes had one

    state: DeadLetterState = DeadLetterState.OPEN
    campaign_id: UUID | None = None  # the last that has dealt with it
    redriven_as: UUID | None = None  # the job that was asked for in its place
    redrives: int = 0
    asked_at: datetime | None = None
    note: str | None = None  # why it was refused, skipped or dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTypeRow:
    """A job type as the latest agent announced it."""

    name: str
    queue: str
    arguments_schema: JsonObject
    result_schema: JsonObject | None
    guarantee: Guarantee
    policy: JobPolicy
    description: str
    announced_by: str
    announced_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """An agent as its last heartbeat told."""

    agent_id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    running: int
    draining: bool
    started_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; None: any. The last accepted first."""

    states: tuple[JobState, ...] = ()
    job_type: str | None = None
    parent_id: UUID | None = None
    before: UUID | None = None  # only what comes after this job in the list: the last one of the page before
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCount:
    """How many jobs of a type are in a state."""

    job_type: str
    state: JobState
    jobs: int


CLAIM_TIMEOUT = timedelta(seconds=10)  # how long a claimed row is left to the one that claimed it


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRow:
    """A circuit breaker that has been open. One that never was has no row, and is closed."""

    name: str  # `job:<job type>` or `dependency:<name>`
    version: int = 1
    state: BreakerState
    by_hand: bool = False  # somebody has opened or closed it
    since: datetime
    until: datetime | None = (
        None  # open: the first probe follows; half open: the next one. None: never by itself
    )
    opened: int = 0  # how often in a row, without having closed in between: the cooldown grows with it
    succeeded: int = 0  # half open: so many probes have succeeded
    reason: str
    job_types: tuple[str, ...] = ()  # those that it was seen to hold back
    policy: BreakerPolicy

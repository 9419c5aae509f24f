"""Jobs and attempts as frozen values: decisions read them and return them. Pure."""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from uuid import UUID

from warrener_contracts.events import ErrorInfo, JsonObject
from warrener_contracts.policy import Guarantee, JobPolicy, PolicyOverrides
from warrener_contracts.state_machine import JobState
from warrener_contracts.unique import OnRepeat
from warrener_store.encoding import escape

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_dataclass

    from warrener_contracts.events import AttemptDispatchedData, JobFinishedData, JobRequestedData
    from warrener_store.dead_letters.rows import DeadLetter
else:
    from dataclasses import dataclass

    def frozen_dataclass(*, frozen: bool, **options: Any) -> object:
        """As `dataclass`, but frozen for the type checkers alone: with a guard at runtime a record of many
        fields takes three times as long to make."""
        assert frozen
        return dataclass(**options)


KEY_SCOPE = "\x1a:"
"""Stands between a stored idempotency key and its scope, and in no escaped text: a key without it was stored
by an earlier version, which knew no scopes."""
SCOPE_DIGITS = 24
FOLLOWS = "as job "
"""The beginning of the `ending_reason` of a child job that another job stands for; its id follows."""


@lru_cache(maxsize=4096)
def _key_scope(source: str, job_type: str) -> str:
    """Digest who uses a key, and for which jobs; of one length, so that an index finds all scopes of a
    key."""
    text = f"{job_type}\n{source}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=SCOPE_DIGITS // 2).hexdigest()


@frozen_dataclass(frozen=True, kw_only=True)  # no slots: a copy of all its fields is one step (`evolve`)
class JobRow:
    """One job. `version` grows by one with every change; a save counts only from the version before.

    `wake_at` is when a service must look at the job: the scheduler if it is waiting, else the supervisor.
    None once it is over.
    """

    # The request; never changes.
    job_id: UUID
    job_type: str
    arguments: JsonObject
    guarantee: Guarantee
    policy: JobPolicy
    source: str
    idempotency_key: str | None = None
    parent_id: UUID | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None
    requested_at: datetime
    accepted_at: datetime
    deadline_at: datetime | None = None
    request_hash: str = ""  # the same id with another content is a conflict
    request_id: str | None = None  # the id of its request, unless that is the job's
    member_of: str | None = None  # `size/call_id` of the map of its parent that it is a job of
    gates: str | None = None  # JSON of the gates that it needs a slot of (`gates/rows.py`)

    # The state.
    queue: str  # of the current attempt: a rule of the policy may choose another than the request
    timeout_seconds: float | None = None  # of the current attempt, if a rule has chosen it
    version: int = 1
    state: JobState
    attempt: int = 0  # the current attempt, the fencing token; 0: none was dispatched
    failures: int = 0  # attempts charged to the job
    losses: int = 0  # attempts lost with their agent
    suspensions: int = 0  # of a workflow: the turns of its generation that ended and were not the last
    settled_attempt: int = 0  # of a workflow: the attempt that ended the last of them
    generation: int = 0  # of a workflow: the turn that ended its last generation by `flow.continue_as`
    agent_id: str | None = None  # the agent that says it runs the current attempt
    watchers: tuple[str, ...] = ()  # reply addresses
    cancel_reason: str | None = None  # set: its cancellation was requested
    ending: JobState | None = None  # of a suspended job: how it ends once its calls are undone
    ending_reason: str | None = None  # without `ending`: of a held job, or one that another stands for
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

    @property
    def stored_key(self) -> str | None:
        """The idempotency key with its scope, as the unique column holds it: the keys of two sources, or of
        two job types, are two."""
        if self.idempotency_key is None:
            return None
        return f"{escape(self.idempotency_key)}{KEY_SCOPE}{_key_scope(self.source, self.job_type)}"

    @property
    def is_held(self) -> bool:
        """True if a workflow has failed and waits for an operator: no turn begins, and nothing is undone."""
        return self.state is JobState.SUSPENDED and self.ending is None and self.ending_reason is not None

    @property
    def is_replaced(self) -> bool:
        """True if another job has replaced this one while it waited: it is never dispatched, and is about to
        be cancelled."""
        return self.state is JobState.WAITING and self.cancel_reason is not None

    @property
    def leader(self) -> UUID | None:
        """The job that stands for this one, which waits for its end and is never dispatched."""
        reason = self.ending_reason
        if self.state is not JobState.WAITING or reason is None or not reason.startswith(FOLLOWS):
            return None
        return UUID(reason.removeprefix(FOLLOWS))

    @property
    def timeout(self) -> timedelta:
        """The maximum time of the current attempt."""
        seconds = self.timeout_seconds
        return self.policy.timeout if seconds is None else timedelta(seconds=seconds)

    @property
    def tries(self) -> int:
        """The number of attempts; of a workflow, at its current turn."""
        return max(self.attempt - self.settled_attempt, min(self.attempt, 1))

    def finished_data(self) -> "JobFinishedData":
        """The data of `job.finished` as replies have them. Raises ValueError if the job is not over."""
        if self.finished_at is None:
            raise ValueError(f"expected a job that is over, got {self.job_id} in state {self.state}")
        from warrener_contracts.events import JobFinishedData  # noqa: PLC0415 - readers of jobs need no events

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
            request_id=self.request_id or str(self.job_id),
            request_source=self.source,
        )

    def dispatched_data(self) -> "AttemptDispatchedData":
        """The data of the current attempt's dispatch; `not_before` if the attempt has to wait."""
        from warrener_contracts.events import AttemptDispatchedData  # noqa: PLC0415 - as above

        return AttemptDispatchedData(
            job_id=self.job_id,
            attempt=self.attempt,
            job_type=self.job_type,
            queue=self.queue,
            arguments=self.arguments,
            guarantee=self.guarantee,
            timeout=self.timeout,
            max_attempts=self.policy.max_attempts,
            deadline=self.deadline_at,
            requested_at=self.requested_at,
            not_before=self.due_at if self.state is JobState.RETRYING else None,
        )

    def redriven_data(
        self, arguments: JsonObject, queue: str | None, policy: PolicyOverrides | None
    ) -> "JobRequestedData":
        """The data of a request for a new job in place of this one, which joins its parent.

        The deadline was for the first time, and the idempotency key always stands for this job: the request
        has neither.
        """
        from warrener_contracts.events import JobRequestedData  # noqa: PLC0415 - as above

        return JobRequestedData(
            job_type=self.job_type,
            arguments=arguments,
            queue=queue or self.queue,
            parent_id=self.parent_id,
            policy=policy,
        )


class JobChanges(TypedDict, total=False):
    """The fields of a JobRow that are its state, and may change. Every other field is of the request."""

    queue: str
    timeout_seconds: float | None
    version: int
    state: JobState
    attempt: int
    failures: int
    losses: int
    suspensions: int
    settled_attempt: int
    generation: int
    agent_id: str | None
    watchers: tuple[str, ...]
    cancel_reason: str | None
    ending: JobState | None
    ending_reason: str | None
    due_at: datetime | None
    wake_at: datetime | None
    dispatched_at: datetime | None
    started_at: datetime | None
    lease_until: datetime | None
    finished_at: datetime | None
    progress: float | None
    progress_note: str | None
    result: Any
    error: ErrorInfo | None
    updated_at: datetime


STATE_FIELDS = tuple(field.name for field in fields(JobRow) if field.name in JobChanges.__annotations__)
"""The fields of a JobRow that a save writes."""
REQUEST_FIELDS = tuple(field.name for field in fields(JobRow) if field.name not in STATE_FIELDS)
"""The fields of a JobRow that are written once: the request."""


def evolve(row: JobRow, **changes: Unpack[JobChanges]) -> JobRow:
    """`row` with these changes, as `dataclasses.replace` gives it, at a tenth of its cost.

    A row has many fields, and each decision changes some: they are copied at once and not one by one. The
    type checkers refuse a field of the request.
    """
    return row_from_fields({**vars(row), **changes})


def row_from_fields(fields: dict[str, Any]) -> JobRow:
    """The row that has exactly these fields, which must be all; the dictionary becomes the row's own."""
    row = object.__new__(JobRow)
    object.__setattr__(row, "__dict__", fields)
    return row


class AttemptOutcome(StrEnum):
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
    outcome: AttemptOutcome
    agent_id: str | None
    dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime
    error: ErrorInfo | None
    verdict: str  # "done", "retry at …", "dead: …": the supervisor's decision


@frozen_dataclass(frozen=True, slots=True)
class Inserted:
    """The result of inserting one job. `row` is the job that the store holds now under its id or its key.

    `repeat`: set if `row` holds the unique key of the job that was to be inserted, by whose policy."""

    row: JobRow
    new: bool  # False: a job by this id, or with this idempotency key or unique key, was there before
    repeat: OnRepeat | None = None


@frozen_dataclass(frozen=True, slots=True)
class Save:
    """One change of one job: the new row, and what is written beside it in the same transaction.

    Applied only if the store holds version `row.version - 1` in a state that is not terminal. Only the state
    of the row is written; the request stays as it was inserted.
    """

    row: JobRow
    attempt: AttemptRow | None = None
    dead_letter: "DeadLetter | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """The jobs to list; None selects any."""

    states: tuple[JobState, ...] = ()
    job_type: str | None = None
    parent_id: UUID | None = None
    accepted_from: datetime | None = None
    accepted_until: datetime | None = None
    before: UUID | None = None  # only jobs behind this one in the list: the last of the page before
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCount:
    """The number of jobs of a type in a queue and a state."""

    job_type: str
    queue: str
    state: JobState
    jobs: int


CLAIM_TIMEOUT = timedelta(seconds=10)
"""Time for which a claimed row belongs to its claimant."""

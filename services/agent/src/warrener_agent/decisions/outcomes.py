"""Decide how an attempt ended: its outcome, and what the ledger's answers make of one in doubt."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from warrener_agent.context import AttemptFacts
from warrener_agent.decisions.errors import heartbeat_failure, timeout_failure, with_flight_record
from warrener_agent.failures import HandlerSignal
from warrener_agent.ledger import port
from warrener_agent.ledger.port import HOLDER_MARK, Claim, ClaimResult, ClaimStatus, Completion, Failure
from warrener_contracts.events import (
    AttemptDispatchedData,
    Checkpoint,
    ErrorInfo,
    ErrorKind,
    FlightRecord,
    Suspension,
)
from warrener_contracts.retryability import UNKNOWN_JOB_TYPE
from warrener_contracts.topology import MAX_BODY

_MAX_TIMEOUT = timedelta(days=3650)


class StopCause(StrEnum):
    """Why an attempt is stopped from outside."""

    CANCELLED = "cancelled"  # on request
    FENCED = "fenced"  # the claim is lost, or could not be renewed in time
    DRAINED = "drained"  # the agent ends


class SucceededOutcome(NamedTuple):
    """The handler returned. `recorded`: True if the ledger has it already."""

    completion: Completion
    recorded: bool


@dataclass(frozen=True, slots=True)
class FailedOutcome:
    """The handler raised, ran too long, or its executor died.

    `handler_signal`: set if the handler did not fail, but requested something else. `recorded`: the failure
    that the ledger has already.
    """

    error: ErrorInfo
    retry_after_seconds: float | None = None
    recorded: Failure | None = None
    handler_signal: HandlerSignal | None = None


@dataclass(frozen=True, slots=True)
class SuspendedOutcome:
    """A turn of a workflow ended. `messages`: events that the broker must have before it is reported.
    `recorded`: what the ledger has already, as of a failure."""

    suspension: Suspension
    messages: tuple[port.ChildJobRequest, ...] = ()
    recorded: Failure | None = None


@dataclass(frozen=True, slots=True)
class CancelledOutcome:
    """The attempt was stopped, or not started, on request."""

    reason: str
    flight_record: FlightRecord | None = None


@dataclass(frozen=True, slots=True)
class ReleasedOutcome:
    """The attempt is given back unharmed. `lease_ended`: its claim ends by itself, without the ledger."""

    reason: str
    lease_ended: bool = False


@dataclass(frozen=True, slots=True)
class UnresolvedOutcome:
    """The claim was lost, or the ledger refused the completion or did not answer: claim again to learn what
    holds. `has_stopped`: the handler was stopped, so nothing of the attempt can have been recorded."""

    why: str
    has_stopped: bool = False


@dataclass(frozen=True, slots=True)
class SupersededOutcome:
    """The attempt belongs to another agent by now: nothing is published about it."""

    why: str


ReportableOutcome = FailedOutcome | SuspendedOutcome | CancelledOutcome | ReleasedOutcome
"""An outcome other than success that is published."""

FinalOutcome = SucceededOutcome | ReportableOutcome | SupersededOutcome
Outcome = FinalOutcome | UnresolvedOutcome


def with_texts(outcome: Outcome, change: Callable[[str], str]) -> Outcome:
    """The outcome with the texts of its error or its flight record changed: secrets are hidden in them."""
    if isinstance(outcome, FailedOutcome):
        return replace(outcome, error=outcome.error.with_texts(change))
    if isinstance(outcome, CancelledOutcome) and outcome.flight_record is not None:
        return replace(outcome, flight_record=outcome.flight_record.with_texts(change))
    return outcome


def outcome_word(outcome: Outcome) -> str:
    """Name an outcome in a word: `succeeded`, `failed`, or the handler's signal such as `snoozed`."""
    if isinstance(outcome, FailedOutcome) and outcome.handler_signal is not None:
        return outcome.handler_signal.value
    return type(outcome).__name__.removesuffix("Outcome").lower()


def attempt_facts(
    data: AttemptDispatchedData,
    started_at: datetime,
    checkpoint: Checkpoint | None,
    trace: tuple[str | None, str | None] = (None, None),
    baggage: str | None = None,
) -> AttemptFacts:
    """Return the facts that the handler may know about its attempt; `trace` is the context of its span."""
    deadline = started_at + min(data.timeout, _MAX_TIMEOUT)
    if data.deadline is not None:
        deadline = min(deadline, data.deadline)
    last_state = None if checkpoint is None else checkpoint.state
    return AttemptFacts(data, deadline, last_state, *trace, baggage)


def timeout_outcome(
    data: AttemptDispatchedData, facts: AttemptFacts, silent_for: float | None, record: FlightRecord | None
) -> FailedOutcome:
    """Fail an attempt that ran too long, or was silent for `silent_for` seconds."""
    if silent_for is not None:
        raised = heartbeat_failure(silent_for)
    else:
        raised = timeout_failure(data.timeout, data.deadline if facts.deadline == data.deadline else None)
    return FailedOutcome(with_flight_record(raised, record).error, raised.retry_after_seconds)


def abandoned_outcome() -> FailedOutcome:
    """Return the outcome of an attempt whose agent has died. The handler may have caused that, so the
    supervisor decides if there is another attempt."""
    return FailedOutcome(
        ErrorInfo(
            kind=ErrorKind.LOST,
            type=ErrorKind.LOST.value,
            message=f"agent {HOLDER_MARK} has died, or was cut off, while it ran it",
        )
    )


def stop_outcome(cause: StopCause, reason: str, record: FlightRecord | None) -> Outcome:
    """Return the outcome of an attempt that was stopped from outside."""
    match cause:
        case StopCause.CANCELLED:
            return CancelledOutcome(reason, record)
        case StopCause.DRAINED:
            return ReleasedOutcome(reason)
        case StopCause.FENCED:
            return UnresolvedOutcome(reason, has_stopped=True)


def unknown_job_type_error(data: AttemptDispatchedData, agent_id: str, known: list[str]) -> ErrorInfo:
    """Describe an attempt whose job type this agent does not serve."""
    return ErrorInfo(
        kind=ErrorKind.ERROR,
        type=UNKNOWN_JOB_TYPE,
        message=(
            f"expected one of {', '.join(known)} in queue {data.queue}, got {data.job_type}: agent "
            f"{agent_id} does not know it; give its agents a queue of their own, or all agents of this queue "
            "the same modules"
        ),
    )


def unreadable_outcome(why: str) -> FailedOutcome:
    """Fail an attempt whose payloads this agent cannot decrypt: none will, until it has the key."""
    kind = ErrorKind.BAD_ARGUMENTS
    return FailedOutcome(ErrorInfo(kind=kind, type="PayloadUnreadable", message=why, retryable=False))


def long_result_outcome(size: int) -> FailedOutcome:
    """Fail an attempt whose result is too long once it is encrypted."""
    why = (
        f"expected a result of at most {MAX_BODY} bytes when encrypted, got {size}: put the data elsewhere "
        "and return its URL"
    )
    kind = ErrorKind.BAD_RESULT
    return FailedOutcome(ErrorInfo(kind=kind, type=kind.value, message=why, retryable=False))


def resolve(doubt: UnresolvedOutcome, claim: Claim, granted: ClaimResult) -> FinalOutcome:
    """Resolve an outcome in doubt by the ledger's answer to the same claim, made once more.

    COMPLETED: the commit succeeded and its answer was lost. GRANTED: nothing of the attempt was recorded and
    no other agent has it, so it is given back.
    """
    match granted.status:
        case ClaimStatus.COMPLETED:
            completion = recorded_completion(granted)
            if completion.attempt > claim.attempt:  # that attempt reports it
                return SupersededOutcome(f"{doubt.why}; attempt {completion.attempt} has succeeded")
            return SucceededOutcome(completion, recorded=True)
        case ClaimStatus.FAILED:
            return recorded_failure(granted)
        case ClaimStatus.CANCELLED:
            return CancelledOutcome("cancelled while it ran")
        case ClaimStatus.GRANTED:
            return ReleasedOutcome(doubt.why)
        case ClaimStatus.HELD | ClaimStatus.SUPERSEDED:
            return SupersededOutcome(f"{doubt.why}; the ledger says {granted.status.value}")


def recorded_completion(granted: ClaimResult) -> Completion:
    """Return the completion that a COMPLETED answer carries."""
    if granted.completion is None:
        raise ValueError("expected a completion with the answer COMPLETED, got none")
    return granted.completion


def failure_to_record(
    claim: Claim, outcome: FailedOutcome | SuspendedOutcome, started_at: datetime, finished_at: datetime
) -> Failure:
    """Return what the ledger records of a failure or a suspension; `recorded_failure` reads it again."""
    details: dict[str, Any]
    if isinstance(outcome, SuspendedOutcome):
        details = {
            "suspension": outcome.suspension.model_dump(mode="json"),
            "messages": [one.request.decode() for one in outcome.messages],
            # An agent that knows no workflows reads a failure, and gives the attempt back uncharged.
            "error": {"kind": "error", "type": UNKNOWN_JOB_TYPE, "message": "expected no suspension"},
            "retry_after_seconds": None,
        }
        return Failure(claim.job_id, claim.attempt, details, started_at, finished_at)
    details = {
        "error": outcome.error.model_dump(mode="json"),
        "retry_after_seconds": outcome.retry_after_seconds,
        "instead": outcome.handler_signal,
    }
    return Failure(claim.job_id, claim.attempt, details, started_at, finished_at)


def recorded_failure(granted: ClaimResult) -> FailedOutcome | SuspendedOutcome:
    """Return the outcome that a FAILED answer carries."""
    if granted.failure is None:
        raise ValueError("expected a failure with the answer FAILED, got none")
    details = granted.failure.details
    if "suspension" in details:
        return SuspendedOutcome(
            Suspension.model_validate(details["suspension"]),
            tuple(port.ChildJobRequest("", one.encode()) for one in details["messages"]),
            granted.failure,
        )
    handler_signal = details.get("instead")  # absent if an agent older than 1.1 recorded it
    return FailedOutcome(
        ErrorInfo.model_validate(details["error"]),
        details["retry_after_seconds"],
        granted.failure,
        HandlerSignal(handler_signal) if handler_signal else None,
    )

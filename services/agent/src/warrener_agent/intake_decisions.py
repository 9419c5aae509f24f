"""What to do with what came from a dispatch queue. Pure."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from warrener_agent.failures import HandlerSignal
from warrener_agent.ledger.checkpoints import SavedCheckpoint
from warrener_agent.ledger.port import Claim, ClaimResult, ClaimStatus, Completion, Failure
from warrener_agent.outcomes import (
    CancelledOutcome,
    FailedOutcome,
    FinalOutcome,
    ReleasedOutcome,
    SucceededOutcome,
    SupersededOutcome,
    UnresolvedOutcome,
)
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import AttemptDispatched, Checkpoint, ErrorInfo, Reason
from warrener_contracts.messages import is_early
from warrener_contracts.topology import DELAY_LEVELS, DelayLevel, delay_level_for


@dataclass(frozen=True, slots=True)
class ParkingReason:
    """It cannot be understood here; it is kept with the reason."""

    reason: Reason
    detail: str


class IntakeRoute(StrEnum):
    """Where a dispatched attempt goes first."""

    ADOPT = "adopt"  # it runs here already: this is a later delivery of the same message
    DELAY = "delay"  # it came before its time: up the ladder again
    NO_SLOT = "no_slot"  # waiting is in the delay queues, never in an agent
    UNKNOWN = "unknown"  # this agent does not know the job type: another one may
    SPLIT = "split"  # what it shares a message with may have ended its agent: it comes again alone
    CLAIM = "claim"


class IntakeAction(StrEnum):
    """What follows the ledger's answer to a claim."""

    START = "start"
    REPORT_SUCCESS = "report_success"  # it has succeeded: its recorded outcome is told, nothing is run
    REPORT_FAILURE = "report_failure"  # this attempt has failed: so too
    RETRY_LATER = "retry_later"  # a live other holds it: back by a delay level that grows
    DROP = "drop"
    REPORT_CANCELLED = "report_cancelled"


def read_dispatch(element: DecodedEvent | DecodeFailure) -> AttemptDispatched | ParkingReason:
    """An element of a message, if it is for this door."""
    if isinstance(element, DecodeFailure):
        return ParkingReason(element.reason, element.detail)
    if not isinstance(element.event, AttemptDispatched):
        return ParkingReason(
            Reason.WRONG_QUEUE, f"expected attempt.dispatched in a dispatch queue, got {element.event.type}"
        )
    return element.event


def choose_route(
    event: AttemptDispatched, now: datetime, *, runs_here: bool, slot_free: bool, is_shared: bool, known: bool
) -> IntakeRoute:
    """Where `event` goes first. `known`: this agent has its job type, or must ask the ledger about it."""
    if runs_here:
        return IntakeRoute.ADOPT
    if is_early(event, now):
        return IntakeRoute.DELAY
    if is_shared:
        return IntakeRoute.SPLIT
    if not known:
        return IntakeRoute.UNKNOWN
    return IntakeRoute.CLAIM if slot_free else IntakeRoute.NO_SLOT


def arrival_time(event: AttemptDispatched, now: datetime, *, returned: bool) -> datetime:
    """By which a delayed attempt is judged: `now`, or when it was sent plus the level on which it has waited,
    where that is later. Its sender goes by the store's clock; an agent whose ledger's clock is behind that
    would send it up again and again."""
    due, sent = event.data.not_before, event.time
    if due is None or sent is None or due <= now:
        return now
    level = delay_level_for(due - sent) if returned else None
    return max(now, sent if level is None else sent + level.delay)


def resend_level(returned: int, patience: int, longest: timedelta) -> DelayLevel:
    """The delay level of a message that was sent back `returned` times before: the shortest for the first
    `patience` times, then a longer one each time, up to `longest`."""
    levels = [level for level in DELAY_LEVELS if level.delay <= longest]
    return levels[min(max(returned + 1 - patience, 0), len(levels) - 1)]


def action_for(granted: ClaimResult) -> IntakeAction:
    """What follows the ledger's answer."""
    match granted.status:
        case ClaimStatus.GRANTED:
            return IntakeAction.START
        case ClaimStatus.COMPLETED:
            return IntakeAction.REPORT_SUCCESS
        case ClaimStatus.FAILED:
            return IntakeAction.REPORT_FAILURE
        case ClaimStatus.HELD:
            return IntakeAction.RETRY_LATER
        case ClaimStatus.SUPERSEDED:
            return IntakeAction.DROP
        case ClaimStatus.CANCELLED:
            return IntakeAction.REPORT_CANCELLED


def resolve(doubt: UnresolvedOutcome, claim: Claim, granted: ClaimResult) -> FinalOutcome:
    """What a doubtful outcome is, now that the ledger was asked for the same claim once more.

    A commit whose answer was lost shows as COMPLETED; if the claim is granted instead, nothing of the attempt
    was kept and nobody else has it, so it is given back.
    """
    match granted.status:
        case ClaimStatus.COMPLETED:
            completion = recorded_completion(granted)
            if completion.attempt > claim.attempt:  # that one tells it
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


def claim_for(event: AttemptDispatched) -> Claim:
    """The claim to it."""
    return Claim(event.data.job_id, event.data.attempt)


def newest_checkpoint(saved: SavedCheckpoint | None, dispatched_checkpoint: Checkpoint | None) -> Checkpoint:
    """The newer of what the ledger has and what came with the dispatch: an agent elsewhere may have saved
    something that this ledger has not heard of. Of the same number, the ledger's."""
    if saved is None or (dispatched_checkpoint is not None and dispatched_checkpoint.number > saved.number):
        assert dispatched_checkpoint is not None
        return dispatched_checkpoint
    return Checkpoint(number=saved.number, state=json.loads(saved.state_text))


def recorded_completion(granted: ClaimResult) -> Completion:
    """The completion that a COMPLETED answer carries."""
    if granted.completion is None:
        raise ValueError("expected a completion with the answer COMPLETED, got none")
    return granted.completion


def failure_to_record(
    claim: Claim, outcome: FailedOutcome, started_at: datetime, finished_at: datetime
) -> Failure:
    """What the ledger shall remember of it."""
    details = {
        "error": outcome.error.model_dump(mode="json"),
        "retry_after_seconds": outcome.retry_after_seconds,
        "instead": outcome.handler_signal,
    }
    return Failure(claim.job_id, claim.attempt, details, started_at, finished_at)


def recorded_failure(granted: ClaimResult) -> FailedOutcome:
    """The outcome that a FAILED answer carries."""
    if granted.failure is None:
        raise ValueError("expected a failure with the answer FAILED, got none")
    details = granted.failure.details
    handler_signal = details.get("instead")  # what an agent of before 1.1 has recorded does not have it
    return FailedOutcome(
        ErrorInfo.model_validate(details["error"]),
        details["retry_after_seconds"],
        granted.failure,
        HandlerSignal(handler_signal) if handler_signal else None,
    )

"""What to do with what came from a dispatch queue. Pure."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from warrener_agent.failures import Instead
from warrener_agent.ledger.checkpoints import Saved
from warrener_agent.ledger.port import Claim, Completion, Failure, Grant, Granted
from warrener_agent.outcomes import Cancelled, Doubtful, Dropped, Failed, Released, Settled, Succeeded
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import AttemptDispatched, Checkpoint, ErrorInfo, Reason
from warrener_contracts.messages import is_early
from warrener_contracts.topology import DELAY_LEVELS, DelayLevel, delay_level_for


@dataclass(frozen=True, slots=True)
class Park:
    """It cannot be understood here; it is kept with the reason."""

    reason: Reason
    detail: str


class Way(StrEnum):
    """Where a dispatched attempt goes first."""

    ADOPT = "adopt"  # it runs here already: this is a later delivery of the same message
    DELAY = "delay"  # it came before its time: up the ladder again
    NO_SLOT = "no_slot"  # waiting is in the delay queues, never in an agent
    UNKNOWN = "unknown"  # this agent does not know the job type: another one may
    APART = "apart"  # what it shares a message with may have ended its agent: it comes again alone
    CLAIM = "claim"


class Then(StrEnum):
    """What follows the ledger's answer to a claim."""

    START = "start"
    TELL_AGAIN = "tell_again"  # it has succeeded: its recorded outcome is told, nothing is run
    TELL_FAILED = "tell_failed"  # this attempt has failed: so too
    LOOK_AGAIN = "look_again"  # a live other holds it: back by a delay level that grows
    DROP = "drop"
    TELL_CANCELLED = "tell_cancelled"


def dispatched(element: DecodedEvent | DecodeFailure) -> AttemptDispatched | Park:
    """An element of a message, if it is for this door."""
    if isinstance(element, DecodeFailure):
        return Park(element.reason, element.detail)
    if not isinstance(element.event, AttemptDispatched):
        return Park(
            Reason.WRONG_QUEUE, f"expected attempt.dispatched in a dispatch queue, got {element.event.type}"
        )
    return element.event


def way(
    event: AttemptDispatched, now: datetime, *, runs_here: bool, slot_free: bool, apart: bool, known: bool
) -> Way:
    """Where `event` goes first. `known`: this agent has its job type, or must ask the ledger about it."""
    if runs_here:
        return Way.ADOPT
    if is_early(event, now):
        return Way.DELAY
    if apart:
        return Way.APART
    if not known:
        return Way.UNKNOWN
    return Way.CLAIM if slot_free else Way.NO_SLOT


def time_of_arrival(event: AttemptDispatched, now: datetime, *, returned: bool) -> datetime:
    """By which a delayed attempt is judged: `now`, or when it was sent plus the level on which it has waited,
    where that is later. Its sender goes by the store's clock; an agent whose ledger's clock is behind that
    would send it up again and again."""
    due, sent = event.data.not_before, event.time
    if due is None or sent is None or due <= now:
        return now
    level = delay_level_for(due - sent) if returned else None
    return max(now, sent if level is None else sent + level.delay)


def back_by(returned: int, patience: int, longest: timedelta) -> DelayLevel:
    """The delay level of a message that was sent back `returned` times before: the shortest for the first
    `patience` times, then a longer one each time, up to `longest`."""
    levels = [level for level in DELAY_LEVELS if level.delay <= longest]
    return levels[min(max(returned + 1 - patience, 0), len(levels) - 1)]


def then(granted: Granted) -> Then:
    """What follows the ledger's answer."""
    match granted.grant:
        case Grant.GRANTED:
            return Then.START
        case Grant.COMPLETED:
            return Then.TELL_AGAIN
        case Grant.FAILED:
            return Then.TELL_FAILED
        case Grant.HELD:
            return Then.LOOK_AGAIN
        case Grant.SUPERSEDED:
            return Then.DROP
        case Grant.CANCELLED:
            return Then.TELL_CANCELLED


def resolve(doubt: Doubtful, claim: Claim, granted: Granted) -> Settled:
    """What a doubtful outcome is, now that the ledger was asked for the same claim once more.

    A commit whose answer was lost shows as COMPLETED; if the claim is granted instead, nothing of the attempt
    was kept and nobody else has it, so it is given back.
    """
    match granted.grant:
        case Grant.COMPLETED:
            completion = recorded(granted)
            if completion.attempt > claim.attempt:  # that one tells it
                return Dropped(f"{doubt.why}; attempt {completion.attempt} has succeeded")
            return Succeeded(completion, recorded=True)
        case Grant.FAILED:
            return failed_before(granted)
        case Grant.CANCELLED:
            return Cancelled("cancelled while it ran")
        case Grant.GRANTED:
            return Released(doubt.why)
        case Grant.HELD | Grant.SUPERSEDED:
            return Dropped(f"{doubt.why}; the ledger says {granted.grant.value}")


def claim_of(event: AttemptDispatched) -> Claim:
    """The claim to it."""
    return Claim(event.data.job_id, event.data.attempt)


def newest(saved: Saved | None, told: Checkpoint | None) -> Checkpoint:
    """The newer of what the ledger has and what came with the dispatch: an agent elsewhere may have saved
    something that this ledger has not heard of. Of the same number, the ledger's."""
    if saved is None or (told is not None and told.number > saved.number):
        assert told is not None
        return told
    return Checkpoint(number=saved.number, state=json.loads(saved.state_text))


def recorded(granted: Granted) -> Completion:
    """The completion that a COMPLETED answer carries."""
    if granted.completion is None:
        raise ValueError("expected a completion with the answer COMPLETED, got none")
    return granted.completion


def failure_to_record(claim: Claim, outcome: Failed, started_at: datetime, finished_at: datetime) -> Failure:
    """What the ledger shall remember of it."""
    told = {
        "error": outcome.error.model_dump(mode="json"),
        "retry_after_seconds": outcome.retry_after_seconds,
        "instead": outcome.instead,
    }
    return Failure(claim.job_id, claim.attempt, told, started_at, finished_at)


def failed_before(granted: Granted) -> Failed:
    """The outcome that a FAILED answer carries."""
    if granted.failure is None:
        raise ValueError("expected a failure with the answer FAILED, got none")
    told = granted.failure.told
    instead = told.get("instead")  # what an agent of before 1.1 has recorded does not have it
    return Failed(
        ErrorInfo.model_validate(told["error"]),
        told["retry_after_seconds"],
        granted.failure,
        Instead(instead) if instead else None,
    )

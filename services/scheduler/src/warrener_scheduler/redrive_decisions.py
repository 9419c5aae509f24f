"""A dead job asked for again: which request that is, and whether it may be. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from warrener_contracts.events import JobRedriveRequestedData, JobRequested, JobRequestedData, JsonObject
from warrener_contracts.identity import redrive_id
from warrener_contracts.messages import build_message
from warrener_contracts.topology import MAX_BODY
from warrener_scheduler.admission import Rejected, decide
from warrener_scheduler.arguments import find_argument_error
from warrener_scheduler.job_types import CachedJobType
from warrener_store.dead_letters.rows import (
    DeadLetter,
    DeadLetterState,
    DeadLetterTransition,
    SuccessfulRequest,
)
from warrener_store.jobs.rows import JobRow


def build_request(
    dead_letter: DeadLetter, dead: JobRow, options: JobRedriveRequestedData, campaign_id: UUID, now: datetime
) -> JobRequested:
    """The request for a new job in place of the dead one: the same however often it is made.

    It hangs in the trace and under the parent of the dead job. Its deadline was for the first time, and its
    idempotency key stands for the dead job for ever: neither is asked for again.
    """
    return JobRequested(
        id=str(dead_letter.redriven_as or redrive_id(dead_letter.job_id, dead_letter.redrives + 1)),
        source=f"warrener/redrive/{campaign_id}",
        time=now,
        subject=str(dead_letter.job_id),
        traceparent=dead.traceparent,
        tracestate=dead.tracestate,
        data=JobRequestedData(
            job_type=dead.job_type,
            arguments=merge_patch(dead.arguments, options.edits),
            queue=options.queue or dead.queue,
            parent_id=dead.parent_id,
            policy=options.policy,
        ),
    )


def merge_patch(arguments: JsonObject, patch: Mapping[str, object]) -> JsonObject:
    """JSON merge patch (RFC 7396): null takes away, objects are merged, everything else replaces."""
    made = dict(arguments)
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, dict):
            inner = made.get(name)
            made[name] = merge_patch(inner if isinstance(inner, dict) else {}, value)  # pyright: ignore[reportUnknownArgumentType] - JSON
        else:
            made[name] = value
    return made


def refusal_reason(event: JobRequested, known: CachedJobType | None, now: datetime) -> str | None:
    """Why the scheduler would not accept this request; None if it would."""
    if known is None:
        decision = decide(event, None, None, now)
    else:
        wrong = find_argument_error(known.validator, event.data.arguments) if known.validator else None
        decision = decide(event, known.row, wrong, now)
    if isinstance(decision, Rejected):
        return decision.detail
    size = len(build_message(event).body)
    return f"expected a request of at most {MAX_BODY:,} bytes, got {size:,}" if size > MAX_BODY else None


def find_later_success(
    dead_letter: DeadLetter, dead: JobRow, found: Iterable[SuccessfulRequest]
) -> UUID | None:
    """A job of the same request that was accepted after this one had died, and has succeeded."""
    return next(
        (
            other.job_id
            for other in found
            if (other.job_type, other.request) == (dead.job_type, dead.fingerprint)
            and other.accepted_at > dead_letter.died_at
            and dead.fingerprint
        ),
        None,
    )


def claim(dead_letter: DeadLetter, campaign_id: UUID) -> DeadLetterTransition:
    """The campaign will ask for it."""
    return _move(dead_letter, DeadLetterState.CLAIMED, campaign_id, None)


def refuse(dead_letter: DeadLetter, campaign_id: UUID, why: str) -> DeadLetterTransition:
    """It cannot be asked for as it is; another campaign may mend it."""
    return _move(dead_letter, DeadLetterState.REFUSED, campaign_id, why)


def mark_already_succeeded(dead_letter: DeadLetter, campaign_id: UUID, by: UUID) -> DeadLetterTransition:
    """It need not be asked for."""
    return _move(
        dead_letter,
        DeadLetterState.ALREADY_SUCCEEDED,
        campaign_id,
        f"the same request has succeeded as job {by}",
    )


def drop(dead_letter: DeadLetter, campaign_id: UUID, by: str, reason: str) -> DeadLetterTransition:
    """Nobody will ask for it."""
    return _move(dead_letter, DeadLetterState.DROPPED, campaign_id, f"dropped by {by}: {reason}")


def release(dead_letter: DeadLetter) -> DeadLetterTransition:
    """It was taken, and is free again: its campaign has stopped."""
    return DeadLetterTransition(
        dead_letter.state, replace(dead_letter, state=DeadLetterState.OPEN, campaign_id=None)
    )


def mark_requested(dead_letter: DeadLetter, now: datetime) -> DeadLetterTransition:
    """Its request is about to be published; a letter that was asked for already keeps its heir."""
    heir = dead_letter.redriven_as if dead_letter.state is DeadLetterState.REQUEUED else None
    number = dead_letter.redrives if heir else dead_letter.redrives + 1
    changed = replace(
        dead_letter,
        state=DeadLetterState.REQUEUED,
        redriven_as=heir or redrive_id(dead_letter.job_id, number),
        redrives=number,
        asked_at=now,
    )
    return DeadLetterTransition(dead_letter.state, changed)


def _move(
    dead_letter: DeadLetter, state: DeadLetterState, campaign_id: UUID, note: str | None
) -> DeadLetterTransition:
    return DeadLetterTransition(
        dead_letter.state, replace(dead_letter, state=state, campaign_id=campaign_id, note=note)
    )

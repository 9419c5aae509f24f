"""Decide about one dead letter of a redrive: its new request, a refusal, and its next state. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from warrener_contracts.events import JobRedriveRequestedData, JobRequested, JsonObject
from warrener_contracts.identity import redrive_job_id
from warrener_contracts.messages import build_message
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import MAX_BODY
from warrener_scheduler.decisions.admission import AdmissionDecision, CachedJobType, decide
from warrener_scheduler.rejections import Rejected
from warrener_store.dead_letters import rows
from warrener_store.jobs.rows import JobRow


def build_request(
    dead_letter: rows.DeadLetter,
    dead: JobRow,
    options: JobRedriveRequestedData,
    redrive_id: UUID,
    now: datetime,
    *,
    trace: tuple[str | None, str | None] = (None, None),
) -> JobRequested:
    """Build the request for a new job in place of the dead one: the same each time, but for its trace."""
    job_id = dead_letter.redriven_as or redrive_job_id(dead_letter.job_id, dead_letter.redrives + 1)
    arguments = merge_patch(dead.arguments, options.edits)
    return JobRequested(
        id=str(job_id),
        source=f"warrener/redrive/{redrive_id}",
        time=now,
        subject=str(dead_letter.job_id),
        traceparent=trace[0],
        tracestate=trace[1],
        baggage=dead.baggage,
        data=dead.redriven_data(arguments, options.queue, options.policy),
    )


def merge_patch(arguments: JsonObject, patch: Mapping[str, object]) -> JsonObject:
    """Apply a JSON merge patch (RFC 7396): null removes, objects are merged, everything else replaces."""
    patched = dict(arguments)
    for name, value in patch.items():
        if value is None:
            patched.pop(name, None)
        elif isinstance(value, dict):
            inner = patched.get(name)
            patched[name] = merge_patch(inner if isinstance(inner, dict) else {}, value)  # pyright: ignore[reportUnknownArgumentType] - JSON
        else:
            patched[name] = value
    return patched


def assess(
    dead_letter: rows.DeadLetter,
    dead: JobRow,
    options: JobRedriveRequestedData,
    *,
    known: CachedJobType | None,
    unknown_queues: Mapping[str | None, str],
    successes: Iterable[rows.SuccessfulRequest],
    redrive_id: UUID,
    now: datetime,
) -> rows.DeadLetterTransition:
    """Claim a dead letter for a redrive, refuse it, or note the success that makes its request needless."""
    if other := _find_later_success(dead_letter, dead, successes):
        note = f"the same request has succeeded as job {other}"
        return _move(dead_letter, rows.DeadLetterState.ALREADY_SUCCEEDED, redrive_id, note)
    request = build_request(dead_letter, dead, options, redrive_id, now)
    refusal = _refusal_reason(request, decide(request, known, now, unknown_queues))
    state = rows.DeadLetterState.CLAIMED if refusal is None else rows.DeadLetterState.REJECTED
    return _move(dead_letter, state, redrive_id, refusal)


def drop(dead_letter: rows.DeadLetter, redrive_id: UUID, by: str, reason: str) -> rows.DeadLetterTransition:
    """Note that the dead letter will not be requested."""
    return _move(dead_letter, rows.DeadLetterState.DROPPED, redrive_id, f"dropped by {by}: {reason}")


def release(dead_letter: rows.DeadLetter) -> rows.DeadLetterTransition:
    """Free a claimed dead letter: its redrive has stopped."""
    freed = replace(dead_letter, state=rows.DeadLetterState.OPEN, redrive_id=None)
    return rows.DeadLetterTransition(dead_letter.state, freed)


def mark_requested(dead_letter: rows.DeadLetter, now: datetime) -> rows.DeadLetterTransition:
    """Note that the request is about to be published; if it was requested before, its successor stays."""
    successor = dead_letter.redriven_as if dead_letter.state is rows.DeadLetterState.REDRIVEN else None
    number = dead_letter.redrives if successor else dead_letter.redrives + 1
    changed = replace(
        dead_letter,
        state=rows.DeadLetterState.REDRIVEN,
        redriven_as=successor or redrive_job_id(dead_letter.job_id, number),
        redrives=number,
        redriven_at=now,
    )
    return rows.DeadLetterTransition(dead_letter.state, changed)


def resolve_outcome(successor: rows.RedriveOutcome) -> rows.DeadLetterTransition:
    """Note the end of the successor. If that was cancelled or expired, the dead letter is open again."""
    dead_letter = successor.dead_letter
    match successor.state:
        case JobState.SUCCEEDED:
            state, note = rows.DeadLetterState.SUCCEEDED, None
        case JobState.DEAD:
            # A dead letter without a fingerprint may have died of any cause: assume the worst.
            same = dead_letter.fingerprint in ("", successor.fingerprint)
            state, note = (rows.DeadLetterState.DIED_AGAIN if same else rows.DeadLetterState.DIED), None
        case over:
            state, note = rows.DeadLetterState.REOPENED, f"the job requested in its place is {over}"
    return rows.DeadLetterTransition(dead_letter.state, replace(dead_letter, state=state, note=note))


def _refusal_reason(event: JobRequested, decision: AdmissionDecision) -> str | None:
    """Return why the scheduler would not accept this request; None if it would."""
    if isinstance(decision, Rejected):
        return decision.detail
    size = len(build_message(event).body)
    return f"expected a request of at most {MAX_BODY:,} bytes, got {size:,}" if size > MAX_BODY else None


def _find_later_success(
    dead_letter: rows.DeadLetter, dead: JobRow, found: Iterable[rows.SuccessfulRequest]
) -> UUID | None:
    """Return a job of the same request that was accepted after this one died, and has succeeded."""
    return next(
        (
            other.job_id
            for other in found
            if (other.job_type, other.request_hash) == (dead.job_type, dead.request_hash)
            and other.accepted_at > dead_letter.died_at
            and dead.request_hash
        ),
        None,
    )


def _move(
    dead_letter: rows.DeadLetter, state: rows.DeadLetterState, redrive_id: UUID, note: str | None
) -> rows.DeadLetterTransition:
    moved = replace(dead_letter, state=state, redrive_id=redrive_id, note=note)
    return rows.DeadLetterTransition(dead_letter.state, moved)

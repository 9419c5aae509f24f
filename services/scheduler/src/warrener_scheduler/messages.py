"""The scheduler's messages: dispatches to agents, replies to requesters, and parked requests. Pure.

The same request results in the same messages under the same ids. Dispatches are written without validation:
a job was validated when it was requested, and there is one dispatch for each. `tests/test_messages.py`
compares the bytes with those of the event class.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

from pydantic_core import to_json

from warrener_contracts import events, topology
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.identity import job_id_of, schedule_from_source
from warrener_contracts.messages import Message, build_message, build_reply, cancel_behind_reports, encode
from warrener_contracts.parking import park_event
from warrener_contracts.policy import Guarantee
from warrener_contracts.state_machine import JobState
from warrener_contracts.writer import EventWriter, moment_json, shared_moment_json
from warrener_scheduler.rejections import Rejected
from warrener_store.jobs.rows import JobRow

SOURCE = "warrener/scheduler"
_DISPATCHED = EventWriter(events.AttemptDispatched, SOURCE)
_REQUESTS = topology.REQUESTS_QUEUE.name
_COMMANDS = topology.SCHEDULER_COMMANDS.name


def dispatch_message(row: JobRow, now: datetime) -> Message:
    """Build the dispatch of the current attempt of a job, under the trace of its row."""
    job_id, attempt, policy = str(row.job_id), row.attempt, row.policy
    arguments = to_json(row.arguments, inf_nan_mode="null").decode()
    deadline = _if_set("deadline", row.deadline_at)
    due = _if_set("not_before", row.due_at) if row.state is JobState.RETRYING else ""
    return _DISPATCHED.message(
        f"{job_id}:{attempt}",
        f"{row.queue}.{row.job_type}",
        shared_moment_json(now),
        job_id,
        f'{{"job_id":"{job_id}","attempt":{attempt},"job_type":"{row.job_type}","queue":"{row.queue}",'
        f'"arguments":{arguments},{_terms(row.guarantee, policy.timeout, policy.max_attempts)}{deadline},'
        f'"requested_at":{moment_json(row.requested_at)}{due}}}',
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        baggage=row.baggage,
        # A repeated attempt failed before: in a message of its own it cannot affect others.
        dispatch_batch=policy.dispatch_batch if attempt == 1 else 1,
    )


def finished_reply(row: JobRow, address: str) -> Message:
    """Build the end of a job for a requester that came after it."""
    event = events.JobFinished(
        id=f"{row.job_id}:finished",
        source=SOURCE,
        time=row.finished_at,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=row.finished_data(),
    )
    return build_reply(event, address)


def deduplicated_reply(event: events.JobRequested, row: JobRow, address: str, now: datetime) -> Message:
    """Build the reply that another job stands for the requested one."""
    reply = events.JobDeduplicated(
        id=f"{job_id_of(event.source, event.id)}:deduplicated",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=events.JobDeduplicatedData(
            requested_job_id=job_id_of(event.source, event.id),
            job_id=row.job_id,
            idempotency_key=event.data.idempotency_key or "",
        ),
    )
    return build_reply(reply, address)


def rejection(
    event: events.JobRequested, received: DecodedEvent, rejected: Rejected, now: datetime
) -> list[Message]:
    """Build the reply and the event of a rejected request, and park the request as it was received, unless it
    repeats one as its job type foresees.

    One of an unknown job type is found by its type, and goes on when an agent announces that. A tick does
    not: its schedule has gone on without it.
    """
    job_id = job_id_of(event.source, event.id)
    reply_id = f"{job_id}:rejected:{rejected.reason.value}"
    waits = rejected.reason is events.Reason.UNKNOWN_JOB_TYPE and schedule_from_source(event.source) is None
    address = (topology.REQUESTS, event.data.job_type) if waits else None
    return _reject(event, received, rejected, reply_id=reply_id, job_id=job_id, now=now, address=address)


def requeue_command(ids: Sequence[str], now: datetime) -> Message:
    """Request that the supervisor requeues parked requests whose job type is known now."""
    return build_message(
        events.ParkedRequeueRequested(
            id=str(uuid5(job_id_of(SOURCE, "announced"), "\n".join([now.isoformat(), *ids]))),
            source=SOURCE,
            time=now,
            data=events.ParkedRequeueRequestedData(ids=tuple(ids), by=SOURCE),
        )
    )


def schedule_rejection(
    event: events.Event[Any], received: DecodedEvent, detail: str, now: datetime
) -> list[Message]:
    """Do the same for a schedule command."""
    # of a safe length, whatever the id of the command is
    reply_id = str(uuid5(job_id_of(event.source, event.id), f"{event.type}\nrejected"))
    rejected = Rejected(events.Reason.BAD_FIELDS, detail)
    return _reject(event, received, rejected, reply_id=reply_id, now=now, queue=_COMMANDS)


def unusable_replies(found: DecodeFailure, now: datetime) -> list[Message]:
    """Build the reply and the event of an event that its inbox has parked; the address of the reply is read
    from its remains."""
    reply = events.JobRejected(
        id=f"{found.identity}:rejected",
        source=SOURCE,
        time=now,
        data=events.JobRejectedData(
            request_id=found.request_id,
            request_source=found.request_source,
            job_id=job_id_of(found.request_source, found.request_id) if found.request_id else None,
            job_type=found.job_type,
            reason=found.reason,
            detail=found.detail,
        ),
    )
    return _reply_messages(reply, found.reply_to)


def cancel_message(job_id: UUID, reason: str, now: datetime, *, tree: bool = False) -> Message:
    """Request that the supervisor cancels a job that another one replaces; or with its children (`tree`) a
    child job of a tree that is cancelled."""
    event = events.JobCancelRequested(
        id=f"{job_id}:{'tree_cancelled' if tree else 'replaced'}",
        source=SOURCE,
        time=now,
        subject=str(job_id),
        data=events.JobCancelRequestedData(job_id=job_id, reason=reason, tree=tree),
    )
    return cancel_behind_reports(event)


def _reject(
    event: events.Event[Any],
    received: DecodedEvent,
    rejected: Rejected,
    *,
    reply_id: str,
    now: datetime,
    job_id: UUID | None = None,
    queue: str = _REQUESTS,
    address: tuple[str, str] | None = None,
) -> list[Message]:
    reply = events.JobRejected(
        id=reply_id,
        source=SOURCE,
        time=now,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=events.JobRejectedData(
            request_id=event.id,
            request_source=event.source,
            job_id=job_id,
            job_type=getattr(event.data, "job_type", None),
            reason=rejected.reason,
            detail=rejected.detail,
        ),
    )
    reply_to = getattr(event.data, "reply_to", None)
    if rejected.hides_arguments:
        data = event.data.model_copy(update={"arguments": {}})
        received = DecodedEvent(event, encode(event.model_copy(update={"data": data})))
    replies = _reply_messages(reply, reply_to, rejected.public)
    if not rejected.parks:
        return replies
    return [*replies, park_event(received, queue, rejected.reason, rejected.public, address)]


def _reply_messages(
    event: events.JobRejected, address: str | None, public: str | None = None
) -> list[Message]:
    """Build the reply, which quotes values, and the event for everybody, which has the `public` detail."""
    shown = event
    if public is not None:
        shown = event.model_copy(update={"data": event.data.model_copy(update={"detail": public})})
    return [build_message(shown), *([build_reply(event, address)] if address else [])]


def _if_set(name: str, moment: datetime | None) -> str:
    return "" if moment is None else f',"{name}":{moment_json(moment)}'


@lru_cache(maxsize=4096)  # many dispatches have these in common
def _terms(guarantee: Guarantee, timeout: timedelta, max_attempts: int) -> str:
    return f'"guarantee":"{guarantee}","timeout":{to_json(timeout).decode()},"max_attempts":{max_attempts}'

"""The scheduler's messages: dispatches to agents, replies to requesters, and parked requests. Pure.

The same request results in the same messages under the same ids. Dispatches are written as bytes without a
model: a job was validated when it was requested, and there is one dispatch for each. `tests/test_messages.py`
compares them with the event as the contracts write it, byte for byte.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

from pydantic_core import to_json

from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import (
    AttemptDispatched,
    Event,
    JobCancelRequested,
    JobCancelRequestedData,
    JobDeduplicated,
    JobDeduplicatedData,
    JobFinished,
    JobRejected,
    JobRejectedData,
    JobRequested,
    Reason,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import (
    EVENT_TYPE,
    Message,
    build_message,
    build_parked_message,
    build_reply,
    to_supervisor,
)
from warrener_contracts.policy import Guarantee
from warrener_contracts.registry import type_of
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow

SOURCE = "warrener/scheduler"
_TYPE = type_of(AttemptDispatched)
_QUEUE = topology.REQUESTS_QUEUE.name


def dispatch_message(row: JobRow, now: datetime) -> Message:
    """Build the dispatch of the current attempt of a job, under the trace of its row."""
    job_id = str(row.job_id)
    event_id = f"{job_id}:{row.attempt}"
    return Message(
        exchange=topology.DISPATCH,
        routing_key=f"{row.queue}.{row.job_type}",
        body=_body(row, job_id, event_id, now),
        content_type=EVENT_TYPE,
        message_id=event_id,
        type=_TYPE,
        headers=_headers(row) if row.traceparent or row.tracestate else {},
        mandatory=True,
        # A repeated attempt failed before: in a message of its own it cannot affect others.
        dispatch_batch=row.policy.dispatch_batch if row.attempt == 1 else 1,
    )


def finished_reply(row: JobRow, address: str) -> Message:
    """Build the end of a job for a requester that came after it."""
    event = JobFinished(
        id=f"{row.job_id}:finished",
        source=SOURCE,
        time=row.finished_at,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=row.finished_data(),
    )
    return build_reply(event, address)


def deduplicated_reply(event: JobRequested, row: JobRow, address: str, now: datetime) -> Message:
    """Build the reply that another job stands for the requested one."""
    reply = JobDeduplicated(
        id=f"{job_id_of(event.source, event.id)}:deduplicated",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=JobDeduplicatedData(
            requested_job_id=job_id_of(event.source, event.id),
            job_id=row.job_id,
            idempotency_key=event.data.idempotency_key or "",
        ),
    )
    return build_reply(reply, address)


def rejection(
    event: JobRequested, received: DecodedEvent, reason: Reason, detail: str, now: datetime
) -> list[Message]:
    """Build the reply and the event of a rejected request, and park the request as it was received."""
    job_id = job_id_of(event.source, event.id)
    reply_id = f"{job_id}:rejected:{reason.value}"
    return _reject(event, received, reason, detail, reply_id=reply_id, job_id=job_id, now=now)


def schedule_rejection(
    event: Event[Any], received: DecodedEvent, detail: str, now: datetime
) -> list[Message]:
    """Do the same for a schedule command."""
    # of a safe length, whatever the id of the command is
    reply_id = str(uuid5(job_id_of(event.source, event.id), f"{event.type}\nrejected"))
    return _reject(event, received, Reason.BAD_FIELDS, detail, reply_id=reply_id, now=now)


def unreadable_messages(found: DecodeFailure, now: datetime) -> list[Message]:
    """Do the same for an unreadable event; the address of the reply is read from its remains."""
    reply = JobRejected(
        id=f"{found.identity}:rejected",
        source=SOURCE,
        time=now,
        data=JobRejectedData(
            request_id=found.request_id,
            request_source=found.request_source,
            job_id=job_id_of(found.request_source, found.request_id) if found.request_id else None,
            job_type=found.job_type,
            reason=found.reason,
            detail=found.detail,
        ),
    )
    parked = build_parked_message(
        queue=_QUEUE,
        body=found.body,
        reason=found.reason.value,
        detail=found.detail,
        message_id=found.identity,
        content_type=found.content_type,
    )
    return [*_reply_messages(reply, found.reply_to), parked]


def parked_event(received: DecodedEvent, reason: Reason, detail: str) -> Message:
    """Park an event that was read and is not carried out, as it was received."""
    return build_parked_message(
        queue=_QUEUE,
        body=received.body,
        reason=reason.value,
        detail=detail,
        message_id=str(uuid5(UUID(received.identity), reason.value)),
        content_type=EVENT_TYPE,
    )


def tree_cancel_message(job_id: UUID, reason: str, now: datetime) -> Message:
    """Request that the supervisor cancels a child job, and its children, of a tree that is cancelled."""
    event = JobCancelRequested(
        id=f"{job_id}:tree_cancelled",
        source=SOURCE,
        time=now,
        subject=str(job_id),
        data=JobCancelRequestedData(job_id=job_id, reason=reason, tree=True),
    )
    return to_supervisor(event)


def _reject(
    event: Event[Any],
    received: DecodedEvent,
    reason: Reason,
    detail: str,
    *,
    reply_id: str,
    now: datetime,
    job_id: UUID | None = None,
) -> list[Message]:
    reply = JobRejected(
        id=reply_id,
        source=SOURCE,
        time=now,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=JobRejectedData(
            request_id=event.id,
            request_source=event.source,
            job_id=job_id,
            job_type=getattr(event.data, "job_type", None),
            reason=reason,
            detail=detail,
        ),
    )
    address = getattr(event.data, "reply_to", None)
    return [*_reply_messages(reply, address), parked_event(received, reason, detail)]


def _reply_messages(event: JobRejected, address: str | None) -> list[Message]:
    return [build_message(event), *([build_reply(event, address)] if address else [])]


# -- dispatches as bytes -------------------------------------------------------------------------------------


def _body(row: JobRow, job_id: str, event_id: str, now: datetime) -> bytes:
    start = (
        f'{{"specversion":"1.0","id":"{event_id}","source":"{SOURCE}","type":"{_TYPE}","time":{_now(now)},'
        f'"subject":"{job_id}","datacontenttype":"application/json"{_trace(row)},'
        f'"data":{{"job_id":"{job_id}","attempt":{row.attempt},{_kind(row.job_type, row.queue)},"arguments":'
    )
    policy = row.policy
    end = (
        f",{_terms(row.guarantee, policy.timeout, policy.max_attempts)}"
        f'{_optional("deadline", row.deadline_at)},"requested_at":{_utc(row.requested_at)}'
        f"{_optional('not_before', row.due_at if row.state is JobState.RETRYING else None)}}}}}"
    )
    return b"".join((start.encode(), to_json(row.arguments, inf_nan_mode="null"), end.encode()))


def _trace(row: JobRow) -> str:
    return _optional("traceparent", row.traceparent) + _optional("tracestate", row.tracestate)


def _optional(name: str, value: str | datetime | None) -> str:
    if value is None:
        return ""
    return f',"{name}":{_utc(value) if isinstance(value, datetime) else _json(value)}'


def _utc(moment: datetime) -> str:
    return _json(moment.astimezone(UTC))


def _json(value: object) -> str:
    return to_json(value).decode()


# The parts that many dispatches share are written once. More kinds of job than a cache holds cost time alone.
@lru_cache(maxsize=4)
def _now(moment: datetime) -> str:
    return _utc(moment)


@lru_cache(maxsize=4096)
def _kind(job_type: str, queue: str) -> str:
    return f'"job_type":{_json(job_type)},"queue":{_json(queue)}'


@lru_cache(maxsize=4096)
def _terms(guarantee: Guarantee, timeout: timedelta, max_attempts: int) -> str:
    return f'"guarantee":{_json(guarantee)},"timeout":{_json(timeout)},"max_attempts":{max_attempts}'


def _headers(row: JobRow) -> dict[str, str]:
    context = {"traceparent": row.traceparent, "tracestate": row.tracestate}
    return {name: value for name, value in context.items() if value}

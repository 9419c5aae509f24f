"""What the scheduler says, as letters. Pure: the same request gives the same letters under the same ids."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import (
    Event,
    JobDeduplicated,
    JobDeduplicatedData,
    JobFinished,
    JobRejected,
    JobRejectedData,
    JobRequested,
    Reason,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import EVENT_TYPE, Message, build_message, build_parked_message, build_reply
from warrener_scheduler.admission import Rejected, job_id_for
from warrener_scheduler.dispatch_messages import SOURCE
from warrener_store.jobs.rows import JobRow

_QUEUE = topology.REQUESTS_QUEUE.name


def finished_reply(row: JobRow, address: str) -> Message:
    """The end of a job, to one who asks when it is over."""
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
    """Another job stands for the one that was asked for."""
    reply = JobDeduplicated(
        id=f"{job_id_for(event)}:deduplicated",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=JobDeduplicatedData(
            requested_job_id=job_id_for(event),
            job_id=row.job_id,
            idempotency_key=event.data.idempotency_key or "",
        ),
    )
    return build_reply(reply, address)


def rejection(event: JobRequested, received: DecodedEvent, why: Rejected, now: datetime) -> list[Message]:
    """To the asker, to the world, and, as it came, to the parking place."""
    reply = JobRejected(
        id=f"{job_id_for(event)}:rejected:{why.reason.value}",
        source=SOURCE,
        time=now,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=JobRejectedData(
            request_id=event.id,
            request_source=event.source,
            job_id=job_id_for(event),
            job_type=event.data.job_type,
            reason=why.reason,
            detail=why.detail,
        ),
    )
    return [*_reply_messages(reply, event.data.reply_to), parked_event(received, why.reason, why.detail)]


def schedule_rejection(
    event: Event[Any], received: DecodedEvent, detail: str, now: datetime
) -> list[Message]:
    """The same for what is asked of a schedule."""
    reply = JobRejected(
        id=str(
            uuid5(job_id_of(event.source, event.id), f"{event.type}\nrejected")
        ),  # of a safe length, whatever the asker called it
        source=SOURCE,
        time=now,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=JobRejectedData(
            request_id=event.id,
            request_source=event.source,
            job_type=getattr(event.data, "job_type", None),
            reason=Reason.BAD_FIELDS,
            detail=detail,
        ),
    )
    address = getattr(event.data, "reply_to", None)
    return [*_reply_messages(reply, address), parked_event(received, Reason.BAD_FIELDS, detail)]


def unreadable_messages(found: DecodeFailure, now: datetime) -> list[Message]:
    """The same for what could not be read; whatever could be read of it says where the answer goes."""
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
    """What was read and is not carried out, as it came, to the parking place."""
    return build_parked_message(
        queue=_QUEUE,
        body=received.body,
        reason=reason.value,
        detail=detail,
        message_id=str(uuid5(UUID(received.identity), reason.value)),
        content_type=EVENT_TYPE,
    )


def _reply_messages(event: JobRejected, address: str | None) -> list[Message]:
    return [build_message(event), *([build_reply(event, address)] if address else [])]

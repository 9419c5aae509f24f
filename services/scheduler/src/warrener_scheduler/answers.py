"""What the scheduler says, as letters. Pure: the same request gives the same letters under the same ids."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID, uuid5

from warrener_contracts import topology
from warrener_contracts.codec import Unreadable
from warrener_contracts.events import (
    AttemptDispatched,
    Event,
    JobCancelRequested,
    JobDeduplicated,
    JobDeduplicatedData,
    JobFinished,
    JobRejected,
    JobRejectedData,
    JobRequested,
    Reason,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.letters import EVENT_TYPE, Letter, encode, letter_for, parked_letter, reply_letter
from warrener_runtime.bus.port import Delivery
from warrener_scheduler.acceptance import Rejected, job_of
from warrener_store.rows import JobRow

SOURCE = "warrener/scheduler"
_QUEUE = topology.REQUESTS_QUEUE.name
_ADDRESS = re.compile(r"[A-Za-z0-9_-]{1,80}")
_JOB_TYPE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def dispatch_letter(row: JobRow, now: datetime) -> Letter:
    """The current attempt of a job, to the agents; under the row's trace, as every attempt."""
    return letter_for(
        AttemptDispatched(
            id=f"{row.job_id}:{row.attempt}",
            source=SOURCE,
            time=now,
            subject=str(row.job_id),
            traceparent=row.traceparent,
            tracestate=row.tracestate,
            data=row.dispatched_data(),
        )
    )


def finished_letter(row: JobRow, address: str) -> Letter:
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
    return reply_letter(event, address)


def deduplicated_letter(event: JobRequested, row: JobRow, address: str, now: datetime) -> Letter:
    """Another job stands for the one that was asked for."""
    told = JobDeduplicated(
        id=f"{job_of(event)}:deduplicated",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=JobDeduplicatedData(
            requested_job_id=job_of(event),
            job_id=row.job_id,
            idempotency_key=event.data.idempotency_key or "",
        ),
    )
    return reply_letter(told, address)


def rejection(event: JobRequested, why: Rejected, now: datetime) -> list[Letter]:
    """To the asker, to the world, and to the parking place."""
    told = JobRejected(
        id=f"{job_of(event)}:rejected:{why.reason.value}",
        source=SOURCE,
        time=now,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        data=JobRejectedData(
            request_id=event.id,
            request_source=event.source,
            job_id=job_of(event),
            job_type=event.data.job_type,
            reason=why.reason,
            detail=why.detail,
        ),
    )
    return [*_told(told, event.data.reply_to), parked_event(event, why.reason, why.detail)]


def unreadable(found: Unreadable, delivery: Delivery, now: datetime) -> list[Letter]:
    """The same for what could not be read; whatever could be read of it says where the answer goes."""
    asker = found.asker
    source, request_id = _text(asker, "source"), _text(asker, "id")
    data: object = asker.get("data")
    fields = cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}
    job_type = _text(fields, "job_type")
    told = JobRejected(
        id=f"{found.identity}:rejected",
        source=SOURCE,
        time=now,
        data=JobRejectedData(
            request_id=request_id,
            request_source=source,
            job_id=job_id_of(source, request_id) if request_id else None,
            job_type=job_type if _JOB_TYPE.fullmatch(job_type) and len(job_type) <= 120 else None,
            reason=found.reason,
            detail=found.detail,
        ),
    )
    address = _text(fields, "reply_to")
    parked = parked_letter(
        queue=_QUEUE,
        body=found.body,
        reason=found.reason.value,
        detail=found.detail,
        message_id=found.identity,
        content_type=delivery.content_type if found.body == delivery.body else EVENT_TYPE,
    )
    return [*_told(told, address if _ADDRESS.fullmatch(address) else None), parked]


def parked_event(event: Event[Any], reason: Reason, detail: str) -> Letter:
    """An event that was read and is not carried out, to the parking place."""
    return parked_letter(
        queue=_QUEUE,
        body=encode(event),
        reason=reason.value,
        detail=detail,
        message_id=str(_name(event, reason.value)),
        content_type=EVENT_TYPE,
    )


def forwarded(event: JobCancelRequested) -> Letter:
    """A request to cancel, to the one who judges: the supervisor."""
    letter = letter_for(event)
    return replace(
        letter, exchange=topology.STATUS, message_id=str(_name(event, "forwarded")), mandatory=False
    )


def _told(event: JobRejected, address: str | None) -> list[Letter]:
    return [letter_for(event), *([reply_letter(event, address)] if address else [])]


def _name(event: Event[Any], what: str) -> UUID:
    """An id of a safe length, whatever the asker called its event."""
    return uuid5(job_id_of(event.source, event.id), f"{event.type}\n{what}")


def _text(fields: Mapping[str, Any], name: str) -> str:
    value: object = fields.get(name)
    return value[:200] if isinstance(value, str) else ""

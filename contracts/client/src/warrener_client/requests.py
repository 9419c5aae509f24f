"""What a caller asks for, as the event that goes on the wire. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from warrener_client.errors import BadRequest, RequestTooLarge
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import JobRequested, JobRequestedData
from warrener_contracts.messages import Message, build_message
from warrener_contracts.policy import PolicyOverrides, find_unknown_field
from warrener_contracts.topology import MAX_BODY

Arguments = Mapping[str, Any] | BaseModel
DurationLike = timedelta | float | str
"""Seconds, a timedelta, or text such as "90s", "2m", "PT2M"."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job, please. `id` is the same whenever the same thing is asked for again: a UUID, or a text that is
    unique for the client's `source`; None makes a new one. `traceparent` continues that trace, not the one
    around."""

    job_type: str
    arguments: Arguments = field(default_factory=dict[str, Any])
    id: UUID | str | None = None
    idempotency_key: str | None = None
    queue: str | None = None
    delay: DurationLike | None = None
    not_before: datetime | None = None
    deadline: datetime | None = None
    expires_after: DurationLike | None = None
    policy: PolicyOverrides | Mapping[str, Any] | None = None
    parent_id: UUID | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class RequestEnvelope:
    """What the client adds to an ask: who asks, where the answer goes, and the trace."""

    event_id: str
    source: str
    requested_at: datetime
    reply_to: str | None  # None: nobody waits for the answer
    traceparent: str | None = None
    tracestate: str | None = None


def build_event(spec: JobSpec, envelope: RequestEnvelope) -> JobRequested:
    """The event; raises BadRequest that names each field, what was expected and what came."""
    if isinstance(spec.policy, Mapping) and (wrong := find_unknown_field(spec.policy)):
        raise BadRequest(f"the request cannot be sent: {wrong}")
    try:
        return JobRequested(
            id=envelope.event_id,
            source=envelope.source,
            time=envelope.requested_at,
            subject=str(spec.job_type),
            traceparent=envelope.traceparent,
            tracestate=envelope.tracestate,
            data=JobRequestedData.model_validate(_fields(spec, envelope.reply_to)),
        )
    except ValidationError as error:
        raise BadRequest(_explain(error)) from error


def encode_event(event: JobRequested) -> Message:
    """The event as a message; raises BadRequest where JSON cannot carry it, RequestTooLarge over 1 MiB."""
    try:
        message = build_message(event)
    except PydanticSerializationError as error:
        raise BadRequest(
            f"expected arguments of {event.data.job_type} that JSON can carry, got: {error}"
        ) from error
    if len(message.body) > MAX_BODY:
        raise RequestTooLarge(event.data.job_type, len(message.body), MAX_BODY)
    return message


def with_reply_to(message: Message, reply_to: str) -> Message:
    """The same request with an address for its answer: asked again, it is the question what became of it."""
    (found,) = decode(message.body)
    assert isinstance(found, DecodedEvent), "what we wrote can be read"
    assert isinstance(found.event, JobRequested), "a request was asked for"
    data = found.event.data.model_copy(update={"reply_to": reply_to})
    return build_message(found.event.model_copy(update={"data": data}))


def _fields(spec: JobSpec, reply_to: str | None) -> dict[str, Any]:
    arguments = spec.arguments
    named = {
        "job_type": spec.job_type,
        "arguments": arguments.model_dump(mode="json")
        if isinstance(arguments, BaseModel)
        else dict(arguments),
        "queue": spec.queue,
        "idempotency_key": spec.idempotency_key,
        "delay": spec.delay,
        "not_before": spec.not_before,
        "deadline": spec.deadline,
        "expires_after": spec.expires_after,
        "policy": spec.policy,
        "parent_id": spec.parent_id,
        "reply_to": reply_to,
    }
    return {name: value for name, value in named.items() if value is not None}


def _explain(error: ValidationError) -> str:
    return "the request cannot be sent: " + "; ".join(map(_problem, error.errors(include_url=False)))


def _problem(found: ErrorDetails) -> str:
    where = ".".join(str(part) for part in found["loc"]) or "request"
    problem = found["msg"].removeprefix("Value error, ")
    return (
        f"{where}: {problem}" if ", got " in problem else f"{where}: {problem}, got {found['input']!r:.100}"
    )

"""What a caller asks for, as the event that goes on the wire. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from warrener_client.errors import BadRequest, RequestTooLarge
from warrener_contracts.codec import Readable, decode
from warrener_contracts.events import JobRequested, JobRequestedData
from warrener_contracts.letters import Letter, letter_for
from warrener_contracts.policy import PolicyOverrides, unknown_part
from warrener_contracts.topology import MAX_BODY

Arguments = Mapping[str, Any] | BaseModel
Span = timedelta | float | str
"""Seconds, a timedelta, or text such as "90s", "2m", "PT2M"."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One job, please. `id` is the same whenever the same thing is asked for again: a UUID, or a text that is
    unique for the client's `source`; None makes a new one. `traceparent` continues that trace, not the one
    around."""

    job_type: str
    arguments: Arguments = field(default_factory=dict[str, Any])
    id: UUID | str | None = None
    idempotency_key: str | None = None
    queue: str | None = None
    delay: Span | None = None
    not_before: datetime | None = None
    deadline: datetime | None = None
    expires_after: Span | None = None
    policy: PolicyOverrides | Mapping[str, Any] | None = None
    parent_id: UUID | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the client adds to an ask: who asks, where the answer goes, and the trace."""

    event_id: str
    source: str
    asked_at: datetime
    reply_to: str | None  # None: nobody waits for the answer
    traceparent: str | None = None
    tracestate: str | None = None


def event_of(ask: Ask, envelope: Envelope) -> JobRequested:
    """The event; raises BadRequest that names each field, what was expected and what came."""
    if isinstance(ask.policy, Mapping) and (wrong := unknown_part(ask.policy)):
        raise BadRequest(f"the request cannot be sent: {wrong}")
    try:
        return JobRequested(
            id=envelope.event_id,
            source=envelope.source,
            time=envelope.asked_at,
            subject=str(ask.job_type),
            traceparent=envelope.traceparent,
            tracestate=envelope.tracestate,
            data=JobRequestedData.model_validate(_fields(ask, envelope.reply_to)),
        )
    except ValidationError as error:
        raise BadRequest(_explain(error)) from error


def sealed(event: JobRequested) -> Letter:
    """The event as a message; raises BadRequest where JSON cannot carry it, RequestTooLarge over 1 MiB."""
    try:
        letter = letter_for(event)
    except PydanticSerializationError as error:
        raise BadRequest(
            f"expected arguments of {event.data.job_type} that JSON can carry, got: {error}"
        ) from error
    if len(letter.body) > MAX_BODY:
        raise RequestTooLarge(event.data.job_type, len(letter.body), MAX_BODY)
    return letter


def answerable(letter: Letter, reply_to: str) -> Letter:
    """The same request with an address for its answer: asked again, it is the question what became of it."""
    (found,) = decode(letter.body)
    assert isinstance(found, Readable), "what we wrote can be read"
    assert isinstance(found.event, JobRequested), "a request was asked for"
    data = found.event.data.model_copy(update={"reply_to": reply_to})
    return letter_for(found.event.model_copy(update={"data": data}))


def _fields(ask: Ask, reply_to: str | None) -> dict[str, Any]:
    arguments = ask.arguments
    named = {
        "job_type": ask.job_type,
        "arguments": arguments.model_dump(mode="json")
        if isinstance(arguments, BaseModel)
        else dict(arguments),
        "queue": ask.queue,
        "idempotency_key": ask.idempotency_key,
        "delay": ask.delay,
        "not_before": ask.not_before,
        "deadline": ask.deadline,
        "expires_after": ask.expires_after,
        "policy": ask.policy,
        "parent_id": ask.parent_id,
        "reply_to": reply_to,
    }
    return {name: value for name, value in named.items() if value is not None}


def _explain(error: ValidationError) -> str:
    return "the request cannot be sent: " + "; ".join(map(_problem, error.errors(include_url=False)))


def _problem(found: ErrorDetails) -> str:
    where = ".".join(str(part) for part in found["loc"]) or "request"
    said = found["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if ", got " in said else f"{where}: {said}, got {found['input']!r:.100}"

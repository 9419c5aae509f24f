"""Events as messages: which exchange, which routing key, which bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import singledispatch
from typing import Any

from pydantic import BaseModel

from warrener_contracts import topology
from warrener_contracts.events import (
    AgentAnnounced,
    AgentHeartbeat,
    AttemptCancel,
    AttemptData,
    AttemptDispatched,
    Event,
    JobCancelRequested,
    JobDead,
    JobDeadlinePassed,
    JobDeduplicated,
    JobFinished,
    JobRejected,
    JobRequested,
    JobRetrying,
)

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"


@dataclass(frozen=True, slots=True)
class Letter:
    """One message, ready to be published."""

    exchange: str
    routing_key: str
    body: bytes
    content_type: str
    message_id: str
    type: str
    headers: Mapping[str, str]
    persistent: bool = True
    mandatory: bool = False


# Nobody has to listen to these; the others wait for a queue, or say that there is none.
_MANDATORY = frozenset({topology.REQUESTS, topology.DISPATCH})
_FLEETING = (AgentHeartbeat, AttemptCancel)


def letter_for(event: Event[Any]) -> Letter:
    """`event` as one message, at the address that its kind has."""
    exchange, key = _address(event)
    return Letter(
        exchange=exchange,
        routing_key=key,
        body=encode(event),
        content_type=EVENT_TYPE,
        message_id=event.id,
        type=event.type,
        headers=trace_headers(event),
        persistent=not isinstance(event, _FLEETING),
        mandatory=exchange in _MANDATORY,
    )


def reply_letter(event: Event[Any], address: str) -> Letter:
    """`event` as an answer to one asker; its message id differs from that of the same event told to all."""
    return replace(
        letter_for(event),
        exchange=topology.EVENTS,
        routing_key=topology.reply_key(address),
        message_id=f"{event.id}>{address}",
    )


def batch_letter(events: Iterable[Event[Any]]) -> Letter:
    """Events of one address kind in one message; the routing key is that of the first one.

    Each element keeps its own trace context; the message has none.
    """
    told = list(events)
    body = b"[" + b",".join(encode(event) for event in told) + b"]"
    first = letter_for(told[0])
    return replace(first, body=body, content_type=BATCH_TYPE, headers={}, type="batch")


def delayed_letter(event: AttemptDispatched, now: datetime) -> Letter:
    """A dispatch that waits in the ladder until `not_before`, or goes at once where no rung is that short."""
    letter = letter_for(event)
    left = (event.data.not_before or now) - now
    rung = topology.rung_for(left + _TOLERANCE)
    if rung is None:
        return letter
    return replace(
        letter, exchange=topology.DELAY, routing_key=f"{rung.name}.{letter.routing_key}", mandatory=False
    )


# A wake-up up to this much early counts as on time: the rungs end on whole seconds, clocks do not.
_TOLERANCE = timedelta(milliseconds=250)


def parked_letter(
    *, queue: str, body: bytes, reason: str, detail: str, message_id: str, content_type: str | None
) -> Letter:
    """A message that cannot be understood, as it came, with the reason."""
    return Letter(
        exchange=topology.DEAD,
        routing_key=f"parked.{queue}",
        body=body,
        content_type=content_type or "application/octet-stream",
        message_id=message_id,
        type="parked",
        headers={"warrener-reason": reason, "warrener-detail": detail[:2000], "warrener-queue": queue},
    )


def encode(event: BaseModel) -> bytes:
    """The event as JSON; attributes without a value are left out, as CloudEvents asks."""
    return event.model_dump_json(exclude_none=True).encode()


def trace_headers(event: Event[Any]) -> dict[str, str]:
    """W3C trace context, for tools that read headers and not bodies."""
    context = {"traceparent": event.traceparent, "tracestate": event.tracestate}
    return {name: value for name, value in context.items() if value}


@singledispatch
def _address(event: Event[Any]) -> tuple[str, str]:
    """Every status event goes by its type; the others say where."""
    data: object = event.data
    if isinstance(data, AttemptData):
        what = event.type.removeprefix("attempt.").rsplit(".", 1)[0]
        return topology.STATUS, f"attempt.{what}.{data.job_type}"
    raise TypeError(f"expected an event of the wire, got {event.type!r}: it has no address")


@_address.register
def _(event: JobRequested) -> tuple[str, str]:
    return topology.REQUESTS, event.data.job_type


@_address.register
def _(event: JobCancelRequested) -> tuple[str, str]:
    return topology.REQUESTS, "job.cancel_requested"


@_address.register
def _(event: JobDeadlinePassed) -> tuple[str, str]:
    return topology.STATUS, "job.deadline_passed"


@_address.register
def _(event: AgentAnnounced) -> tuple[str, str]:
    return topology.REQUESTS, "agent.announced"


@_address.register
def _(event: AttemptDispatched) -> tuple[str, str]:
    return topology.DISPATCH, f"{event.data.queue}.{event.data.job_type}"


@_address.register
def _(event: AgentHeartbeat) -> tuple[str, str]:
    return topology.HEARTBEATS, f"agent.{event.data.agent_id}"


@_address.register
def _(event: AttemptCancel) -> tuple[str, str]:
    return topology.CONTROL, "all"


@_address.register
def _(event: JobRejected) -> tuple[str, str]:
    return topology.EVENTS, f"job.rejected.{event.data.job_type or 'unknown'}"


@_address.register
def _(event: JobDeduplicated) -> tuple[str, str]:
    return topology.EVENTS, "job.deduplicated"


@_address.register
def _(event: JobFinished) -> tuple[str, str]:
    return topology.EVENTS, f"job.finished.{event.data.state}.{event.data.job_type}"


@_address.register
def _(event: JobRetrying) -> tuple[str, str]:
    return topology.EVENTS, f"job.retrying.{event.data.job_type}"


@_address.register
def _(event: JobDead) -> tuple[str, str]:
    return topology.EVENTS, f"job.dead.{event.data.job_type}"

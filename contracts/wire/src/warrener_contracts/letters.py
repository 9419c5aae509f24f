"""Events as messages: which exchange, which routing key, which bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from pydantic import BaseModel

from warrener_contracts import topology
from warrener_contracts.addresses import address_of
from warrener_contracts.events import AgentHeartbeat, AttemptCancel, AttemptDispatched, Event
from warrener_contracts.portable import legible

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
_SHORT = 255  # bytes; what AMQP allows a message id to have
_LONG_NAMES = UUID("b40e0853-b43a-5cff-81b0-74ce3fbc7d87")  # uuid5(NAMESPACE_DNS, "warrener.long-names")


def letter_for(event: Event[Any]) -> Letter:
    """`event` as one message, at the address that its kind has."""
    return _letter(event, encode(event))


def reply_letter(event: Event[Any], address: str) -> Letter:
    """`event` as an answer to one asker; its message id differs from that of the same event told to all."""
    return replace(
        letter_for(event),
        exchange=topology.EVENTS,
        routing_key=topology.reply_key(address),
        message_id=message_id(f"{event.id}>{address}"),
    )


def batch_letter(events: Iterable[Event[Any]]) -> Letter:
    """Events of one exchange in one message; the routing key is that of the first one.

    Each element keeps its own trace context; the message has none. The caller keeps it within MAX_MESSAGE, or
    MAX_BODY for requests. Raises ValueError for no events, or for events of several exchanges.
    """
    told = list(events)
    exchanges = {address_of(event)[0] for event in told}
    if len(exchanges) != 1:
        raise ValueError(
            f"expected events of one exchange, got {sorted(exchanges)}: make one letter for each"
        )
    body = b"[" + b",".join(encode(event) for event in told) + b"]"
    name = message_id(f"{told[0].id}+{len(told) - 1}")
    return replace(_letter(told[0], body), content_type=BATCH_TYPE, message_id=name, headers={}, type="batch")


def is_early(event: AttemptDispatched, now: datetime) -> bool:
    """Whether an attempt has come before its time and belongs back into the ladder (`delayed_letter`)."""
    due = event.data.not_before
    return due is not None and topology.rung_for(due - now) is not None


def delayed_letter(event: AttemptDispatched, now: datetime) -> Letter:
    """A dispatch by way of the ladder until `not_before`; straight to its queue if it is not early."""
    letter = letter_for(event)
    rung = topology.rung_for((event.data.not_before or now) - now)
    return letter if rung is None else by_rung(letter, rung)


def by_rung(letter: Letter, rung: topology.Rung) -> Letter:
    """A dispatch that first waits on `rung`, whatever its time is."""
    return replace(
        letter, exchange=topology.DELAY, routing_key=f"{rung.name}.{letter.routing_key}", mandatory=False
    )


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
        headers={
            "warrener-reason": reason,
            "warrener-detail": legible(detail, 2000),
            "warrener-queue": queue,
        },
    )


def encode(event: BaseModel) -> bytes:
    """The event as JSON; attributes without a value are left out, as CloudEvents asks. Nulls inside of
    arguments and results stay."""
    return event.model_dump_json(exclude_none=True).encode()


def message_id(name: str) -> str:
    """`name` as a message id: itself where AMQP allows it, else a UUIDv5 of it."""
    return name if len(name.encode()) <= _SHORT else str(uuid5(_LONG_NAMES, name))


def trace_headers(event: Event[Any]) -> dict[str, str]:
    """W3C trace context, for tools that read headers and not bodies."""
    context = {"traceparent": event.traceparent, "tracestate": event.tracestate}
    return {name: value for name, value in context.items() if value}


def _letter(event: Event[Any], body: bytes) -> Letter:
    exchange, key = address_of(event)
    return Letter(
        exchange=exchange,
        routing_key=key,
        body=body,
        content_type=EVENT_TYPE,
        message_id=message_id(event.id),
        type=event.type,
        headers=trace_headers(event),
        persistent=not isinstance(event, _FLEETING),
        mandatory=exchange in _MANDATORY,
    )

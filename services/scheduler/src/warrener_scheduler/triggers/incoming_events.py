"""Messages of any exchange as events that rules can look at. Pure.

A CloudEvent says itself who it is. Any other JSON is the data of an event whose id is the message id, and
whose source is the exchange. What has no id is refused: it could not be told from its own repeat.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from warrener_contracts.events import Reason
from warrener_contracts.events.fields import Timestamp
from warrener_contracts.identity import event_identity
from warrener_contracts.json_array import JsonArrayElements, has_more_elements_than
from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE
from warrener_contracts.topology import MAX_BODY, MAX_EVENTS
from warrener_runtime.bus.types import Delivery

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Timestamp)


@dataclass(frozen=True, slots=True)
class IncomingEvent:
    """An event that has come; `time` is when it happened, as far as that is known."""

    id: str
    source: str
    type: str | None
    time: datetime
    exchange: str
    key: str
    data: Any
    origin: bytes | JsonArrayElements = field(compare=False, repr=False)
    place: int = field(default=0, compare=False, repr=False)

    @property
    def body(self) -> bytes:
        """What it was read from, as it came; of a batch, the element's own text."""
        return self.origin if isinstance(self.origin, bytes) else self.origin[self.place]

    @property
    def identity(self) -> UUID:
        """The same for its repeat."""
        return event_identity(self.source, self.id)

    def document(self) -> dict[str, Any]:
        """The event as conditions look at it and as jobs get it."""
        return {
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "time": self.time.isoformat().replace("+00:00", "Z"),
            "exchange": self.exchange,
            "key": self.key,
            "data": self.data,
        }


@dataclass(frozen=True, slots=True)
class UnusableMessage:
    """What is no event that could be looked at, and why; parked as it came."""

    reason: Reason
    detail: str
    body: bytes
    content_type: str | None


def events_in(
    delivery: Delivery, now: datetime, max_events: int = MAX_EVENTS
) -> Iterator[IncomingEvent | UnusableMessage]:
    """What a message says; of a batch, each element by itself. What is too large is not looked at."""
    kind = (delivery.content_type or "").partition(";")[0].strip().lower()
    if finding := _too_large(delivery.body, max_events if kind == BATCH_TYPE else None):
        yield UnusableMessage(Reason.TOO_LARGE, finding, delivery.body, delivery.content_type)
        return
    try:
        value: object = from_json(delivery.body)
    except ValueError as error:
        yield UnusableMessage(
            Reason.NOT_JSON, f"expected JSON, got {error}", delivery.body, delivery.content_type
        )
        return
    if kind == BATCH_TYPE and is_array(value):
        if value and not any(map(is_object, value)):
            detail = f"expected a JSON array of events, got {len(value)} other values"
            yield UnusableMessage(Reason.NOT_AN_EVENT, detail, delivery.body, delivery.content_type)
            return
        texts = JsonArrayElements(delivery.body)
        for place, element in enumerate(value):
            found = _cloud_event(element, delivery, now, texts, place)
            yield found or _not_an_event(texts[place], EVENT_TYPE)
    elif kind == EVENT_TYPE or (is_object(value) and "specversion" in value):
        found = _cloud_event(value, delivery, now, delivery.body)
        yield found or _not_an_event(delivery.body, delivery.content_type)
    elif delivery.message_id:
        yield IncomingEvent(
            id=delivery.message_id,
            source=delivery.exchange,
            type=delivery.type,
            time=now,
            exchange=delivery.exchange,
            key=delivery.routing_key,
            data=value,
            origin=delivery.body,
        )
    else:
        detail = "expected a CloudEvent, or a message id for other JSON, got neither: set the message id"
        yield UnusableMessage(Reason.MISSING_ID, detail, delivery.body, delivery.content_type)


def _too_large(body: bytes, max_events: int | None) -> str | None:
    """Why a message is not read at all. What it holds would not fit into a request anyway."""
    if len(body) > MAX_BODY:
        return f"expected at most {MAX_BODY} bytes, got {len(body)}: put the data elsewhere and send its URL"
    if max_events is not None and has_more_elements_than(body, max_events):
        return f"expected at most {max_events} events in one message, got more: send several messages"
    return None


def _cloud_event(
    value: object, delivery: Delivery, now: datetime, origin: bytes | JsonArrayElements, place: int = 0
) -> IncomingEvent | None:
    if not is_object(value):
        return None
    event_id, source, kind = value.get("id"), value.get("source"), value.get("type")
    if not (isinstance(event_id, str) and event_id and isinstance(source, str) and source):
        return None
    return IncomingEvent(
        id=event_id,
        source=source,
        type=kind if isinstance(kind, str) else None,
        time=_time(value.get("time"), now),
        exchange=delivery.exchange,
        key=delivery.routing_key,
        data=value.get("data"),
        origin=origin,
        place=place,
    )


def _not_an_event(body: bytes, content_type: str | None) -> UnusableMessage:
    detail = "expected a CloudEvent with id and source, got none: a repeat of it could not be recognised"
    return UnusableMessage(Reason.NOT_AN_EVENT, detail, body, content_type)


def _time(claimed_time: object, now: datetime) -> datetime:
    """As it says, but none is from the future."""
    try:
        return min(_INSTANT.validate_python(claimed_time), now)
    except ValidationError:
        return now

"""Events as messages: addressed, encoded, batched, delayed, and parked."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from pydantic import BaseModel

from warrener_contracts import topology
from warrener_contracts.events import AttemptDispatched, Event, Reason
from warrener_contracts.identity import job_id_of
from warrener_contracts.json_safety import sanitize_text

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"


class Message(NamedTuple):
    """A message, ready to be published. A named tuple, because one is made for every event and a frozen
    dataclass takes three times as long to make."""

    exchange: str
    routing_key: str
    body: bytes
    content_type: str
    message_id: str
    type: str
    headers: Mapping[str, str]
    persistent: bool = True
    mandatory: bool = False
    dispatch_batch: int = 1  # events of its kind that may share a message; batched exchanges have no limit


ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY, ORIGINAL_MESSAGE_ID = (
    "warrener-exchange",
    "warrener-routing-key",
    "warrener-message-id",
)
"""Headers of parked and requeued messages: exchange, routing key and message id of the first arrival."""

MAX_BATCH_BYTES = 32 * 1024
"""Bytes of a batch; a larger event goes alone. Some hundred events: more would save nothing, and a consumer
holds as many messages as its prefetch allows."""

ORIGINAL_USER = "warrener-user"
"""Header of a requeued report, and of a cancel behind reports: the broker's user that published it first;
empty if it said none."""
_ADDRESS = ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY
MAX_PARKED_SINGLY = 100
"""Events of one queue and one reason that are parked one by one; the others go in batches."""
_MAX_PARKED_BATCH_BYTES = 256 * 1024
_TRUNCATED_BYTES = 64 * 1024  # stored of a message that is larger than MAX_MESSAGE
_ROUTING = frozenset({"CC", "BCC"})
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_BATCHED_EXCHANGES = frozenset(
    {topology.REQUESTS, topology.COMMANDS, topology.STATUS, topology.EVENTS, topology.LOGS}
)
_UNLIMITED = 1_000_000
_MAX_ID_BYTES = 255  # bytes; what AMQP allows a message id to have
_LONG_NAMES = UUID("b40e0853-b43a-5cff-81b0-74ce3fbc7d87")  # uuid5(NAMESPACE_DNS, "warrener.long-names")


def build_message(event: Event[Any]) -> Message:
    """`event` as one message on the route that its class declares."""
    exchange, key = address_of(event)
    return Message(
        exchange=exchange,
        routing_key=key,
        body=encode(event),
        content_type=EVENT_TYPE,
        message_id=message_id(event.id),
        type=event.type,
        headers=trace_headers(event.traceparent, event.tracestate, event.baggage),
        persistent=event.routes[0].persistent,
        mandatory=exchange in topology.MANDATORY,
    )


def address_of(event: Event[Any]) -> tuple[str, str]:
    """The exchange and the routing key of `event`. Raises TypeError for an event that declares none."""
    if not event.routes:
        raise TypeError(f"expected an event of the wire, got {event.type!r}: it has no address")
    return event.routes[0].exchange, event.routing_key


def build_reply(event: Event[Any], address: str) -> Message:
    """`event` as a reply to one requester; its message id differs from that of the outbound event."""
    return as_reply(build_message(event), address)


def as_reply(message: Message, address: str) -> Message:
    """`message` as a reply to one requester; for many requesters it is encoded once."""
    return message._replace(
        exchange=topology.EVENTS,
        routing_key=topology.reply_key(address),
        message_id=message_id(f"{message.message_id}>{address}"),
    )


def forwarded_headers(headers: Mapping[str, object]) -> dict[str, str]:
    """The headers that go with a message which is published again.

    The broker or a plugin acts on the others: `CC` and `BCC` add routing keys, on RabbitMQ 3.10 past any
    topic permission; a forged `x-death` makes it drop a dead letter as a cycle, or stops its dead letters.
    """
    return {
        name: value
        for name, value in headers.items()
        if isinstance(value, str) and not name.lower().startswith("x-") and name.upper() not in _ROUTING
    }


def heartbeat_sentinel(supervisor_id: str, message_id: str) -> Message:
    """A message by which a supervisor proves that heartbeats reach it: a batch without events, which
    supervisors of every version acknowledge and ignore."""
    return Message(
        exchange=topology.HEARTBEATS,
        routing_key=topology.sentinel_key(supervisor_id),
        body=b"[]",
        content_type=BATCH_TYPE,
        message_id=message_id,
        type="sentinel",
        headers={},
        persistent=False,
    )


def cancel_behind_reports(event: Event[Any], user_id: str | None = None) -> Message:
    """A cancel for the status queue, behind the reports about attempts that are there already. `user_id`: the
    broker's user that sent it."""
    name = uuid5(job_id_of(event.source, event.id), f"{event.type}\nforwarded")  # safe for any id
    message = build_message(event)
    headers = message.headers if user_id is None else {**message.headers, ORIGINAL_USER: user_id}
    return message._replace(exchange=topology.STATUS, message_id=str(name), mandatory=False, headers=headers)


def batch_messages(messages: Iterable[Message]) -> list[Message]:
    """Join events of one address into batches of up to MAX_BATCH_BYTES, in their order.

    Batched are requests, commands, reports about attempts, their log lines and outbound events: their
    consumers read batches and judge each element by itself. Other messages stay as they are, unless
    `dispatch_batch` allows several: a dispatch is one message unless its job type declares otherwise.
    """
    # Keyed by the properties that the events of one message share.
    addresses: dict[tuple[str, str, bool, bool, int, str | None], list[Message]] = {}
    slots: list[Message | list[Message]] = []
    for message in messages:
        max_events = _max_batch_size(message)
        if max_events == 1 or message.content_type != EVENT_TYPE:
            slots.append(message)
            continue
        address = (
            message.exchange,
            message.routing_key,
            message.mandatory,
            message.persistent,
            max_events,
            message.headers.get(ORIGINAL_USER),
        )
        known = addresses.get(address)
        if known is None:
            known = addresses[address] = []
            slots.append(known)
        known.append(message)
    return [
        message
        for found in slots
        for message in ([found] if isinstance(found, Message) else _batch_by_size(found))
    ]


def is_early(event: AttemptDispatched, now: datetime) -> bool:
    """True if an attempt has arrived early and goes to a delay queue (`build_delayed_message`)."""
    due = event.data.not_before
    return due is not None and topology.delay_level_for(due - now) is not None


def build_delayed_message(event: AttemptDispatched, now: datetime) -> Message:
    """A dispatch by way of the delay queues until `not_before`, or direct if it is not early."""
    message = build_message(event)
    level = topology.delay_level_for((event.data.not_before or now) - now)
    return message if level is None else delayed_by(message, level)


def delayed_by(message: Message, level: topology.DelayLevel) -> Message:
    """A dispatch that first waits on `level`."""
    return message._replace(
        exchange=topology.DELAY, routing_key=f"{level.name}.{message.routing_key}", mandatory=False
    )


def batch_parked(messages: Iterable[Message]) -> list[Message]:
    """Join parked events after the first MAX_PARKED_SINGLY of one queue and one reason into batches.

    All other messages stay as they are. A batch has requests of one unknown job type, so that they are found
    by it; only the first MAX_PARKED_SINGLY types have batches of their own, since a sender may invent many.
    """
    found: list[Message] = []
    groups: dict[tuple[str | None, ...], list[Message]] = {}
    singly: dict[tuple[str | None, ...], int] = {}
    for message in messages:
        if message.exchange == topology.DEAD and message.content_type == EVENT_TYPE:
            headers = message.headers
            key: tuple[str | None, ...] = (
                headers["warrener-reason"],
                message.routing_key,
                *map(headers.get, _ADDRESS),
                headers.get(ORIGINAL_USER),
            )
            if key[0] == Reason.UNKNOWN_JOB_TYPE and key not in groups and len(groups) >= MAX_PARKED_SINGLY:
                key = (*key[:2], None, None, key[-1])
            groups.setdefault(key, []).append(message)
        else:
            found.append(message)
    for key, group in groups.items():
        left = MAX_PARKED_SINGLY - singly.get(key[:2], 0)
        alone = len(group) if key[0] == Reason.NOT_JSON else left  # text that is not JSON fits into no array
        singly[key[:2]] = MAX_PARKED_SINGLY - max(left - len(group), 0)
        found += group[:alone]
        found += (
            _batch_of(part, _headers_of_batch(part[0], key[2]))
            for part in _parts(group[alone:], _MAX_PARKED_BATCH_BYTES)
        )
    return found


def _headers_of_batch(first: Message, exchange: str | None) -> Mapping[str, str]:
    if exchange is not None:
        return first.headers
    return {name: value for name, value in first.headers.items() if name not in _ADDRESS}


def build_parked_message(
    *,
    queue: str,
    body: bytes,
    reason: str,
    detail: str,
    message_id: str,
    content_type: str | None,
    came: Mapping[str, str] = _NO_HEADERS,
) -> Message:
    """An unreadable message with the reason, unchanged unless it is too large (`truncate_parked`).

    `came` holds the ORIGINAL_ headers of a message whose queue alone is not enough to requeue it.
    """
    body, detail = truncate_parked(body, detail)
    return Message(
        exchange=topology.DEAD,
        routing_key=f"parked.{queue}",
        body=body,
        content_type=content_type or "application/octet-stream",
        message_id=message_id,
        type="parked",
        headers={
            "warrener-reason": reason,
            "warrener-detail": sanitize_text(detail, 2000),
            "warrener-queue": queue,
            **came,
        },
    )


def is_complete(detail: str) -> bool:
    """True if a parked message with this detail is stored whole (`truncate_parked`)."""
    return not (detail.startswith("the first ") and " bytes are kept (SHA-256 " in detail)


def truncate_parked(body: bytes, detail: str) -> tuple[bytes, str]:
    """The stored body and the detail of a parked message: whole up to MAX_MESSAGE, else its beginning."""
    if len(body) <= topology.MAX_MESSAGE:
        return body, detail
    beginning = (
        f"the first {_TRUNCATED_BYTES} of {len(body)} bytes are kept (SHA-256 {sha256(body).hexdigest()})"
    )
    return body[:_TRUNCATED_BYTES], f"{beginning}; {detail}"


def encode(event: BaseModel) -> bytes:
    """The event as JSON, without unset attributes, as CloudEvents requires. Nulls in arguments and results
    stay."""
    return event.model_dump_json(exclude_none=True).encode()


def message_id(name: str) -> str:
    """`name` as a message id: unchanged if AMQP allows it, else a UUIDv5 of it."""
    if len(name) <= _MAX_ID_BYTES // 4 or len(name.encode()) <= _MAX_ID_BYTES:  # 4 bytes a character
        return name
    return str(uuid5(_LONG_NAMES, name))


def trace_headers(
    traceparent: str | None, tracestate: str | None, baggage: str | None = None
) -> dict[str, str]:
    """W3C trace context and baggage as message headers, for tools that do not read bodies."""
    if not traceparent and not tracestate and not baggage:  # as most are
        return {}
    context = {"traceparent": traceparent, "tracestate": tracestate, "baggage": baggage}
    return {name: value for name, value in context.items() if value}


def _max_batch_size(message: Message) -> int:
    return _UNLIMITED if message.exchange in _BATCHED_EXCHANGES else message.dispatch_batch


def _batch_by_size(messages: Sequence[Message]) -> list[Message]:
    """Join messages of one address, each batch filled up."""
    user = messages[0].headers.get(ORIGINAL_USER)
    headers = _NO_HEADERS if user is None else {ORIGINAL_USER: user}
    parts = _parts(messages, MAX_BATCH_BYTES, _max_batch_size(messages[0]))
    return [_batch_of(part, headers) for part in parts]


def _parts(messages: Sequence[Message], max_bytes: int, max_events: int = _UNLIMITED) -> list[list[Message]]:
    parts: list[list[Message]] = []
    room = 0
    for message in messages:
        size = len(message.body) + 1  # and a comma
        if size > room or not parts or len(parts[-1]) == max_events:
            parts.append([])
            room = max_bytes - 1
        parts[-1].append(message)
        room -= size
    return parts


def _batch_of(messages: Sequence[Message], headers: Mapping[str, str] = _NO_HEADERS) -> Message:
    first = messages[0]
    if len(messages) == 1:
        return first
    return first._replace(
        body=b"[" + b",".join(message.body for message in messages) + b"]",
        content_type=BATCH_TYPE,
        message_id=message_id(f"{first.message_id}+{len(messages) - 1}"),
        type="batch",
        headers=headers,
    )

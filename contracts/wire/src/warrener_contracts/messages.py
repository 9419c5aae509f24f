"""Events as messages: which exchange, which routing key, which bytes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from pydantic import BaseModel

from warrener_contracts import topology
from warrener_contracts.addresses import address_of
from warrener_contracts.events import (
    AgentHeartbeat,
    AgentHeartbeatRequested,
    AttemptCancel,
    AttemptDispatched,
    Event,
    Reason,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.json_safety import sanitize_text

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"


class Message(NamedTuple):
    """One message, ready to be published. A named tuple, because one is made for every event: a frozen
    dataclass costs three times as much to make."""

    exchange: str
    routing_key: str
    body: bytes
    content_type: str
    message_id: str
    type: str
    headers: Mapping[str, str]
    persistent: bool = True
    mandatory: bool = False
    per_message: int = 1  # so many of its kind may share a message; any number where its exchange gathers


ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY, ORIGINAL_MESSAGE_ID = (
    "warrener-exchange",
    "warrener-routing-key",
    "warrener-message-id",
)
"""Headers of a parked message, and of one that is sent in again: by which exchange, routing key and message
id it first came."""

MAX_BATCH_BYTES = 32 * 1024
"""Bytes of a gathered message; what is larger by itself goes alone. Some hundred events: more would save
nothing, and a reader holds as many messages as its prefetch allows."""

MAX_PARKED_SINGLY = 100
"""Events of one queue that are parked one by one, for one reason, of what is handled at once."""
_MAX_PARKED_BATCH_BYTES = 256 * 1024
_TRUNCATED_BYTES = 64 * 1024  # bytes of a message that is too large for any queue of ours
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

# Nobody has to listen to these; the others wait for a queue, or say that there is none.
_MANDATORY = frozenset({topology.REQUESTS, topology.DISPATCH})
_TRANSIENT_EVENTS = (AgentHeartbeat, AgentHeartbeatRequested, AttemptCancel)
_BATCHED_EXCHANGES = frozenset({topology.REQUESTS, topology.STATUS, topology.EVENTS})
_UNLIMITED = 1_000_000
_MAX_ID_BYTES = 255  # bytes; what AMQP allows a message id to have
_LONG_NAMES = UUID("b40e0853-b43a-5cff-81b0-74ce3fbc7d87")  # uuid5(NAMESPACE_DNS, "warrener.long-names")


def build_message(event: Event[Any]) -> Message:
    """`event` as one message, at the address that its kind has."""
    return _build_message(event, encode(event))


def build_reply(event: Event[Any], address: str) -> Message:
    """`event` as an answer to one asker; its message id differs from that of the same event told to all."""
    return as_reply(build_message(event), address)


def as_reply(message: Message, address: str) -> Message:
    """What `message` says, as an answer to one asker: for many askers it is encoded once."""
    return message._replace(
        exchange=topology.EVENTS,
        routing_key=topology.reply_key(address),
        message_id=message_id(f"{message.message_id}>{address}"),
    )


def to_supervisor(event: Event[Any]) -> Message:
    """What is asked of the one who judges and keeps watch, to it: the supervisor."""
    name = uuid5(job_id_of(event.source, event.id), f"{event.type}\nforwarded")  # safe, whatever its id is
    return build_message(event)._replace(exchange=topology.STATUS, message_id=str(name), mandatory=False)


def batch_messages(messages: Iterable[Message]) -> list[Message]:
    """The same events in fewer messages: those of one address together, in their order, up to MAX_GATHERED.

    For requests, news of attempts and what is told of jobs: who reads these reads batches, and takes each
    element by itself. All other letters stay as they are, but for those that say how many of their kind may
    share a message: a dispatch is one message, unless its job type was declared otherwise.
    """
    # By what the letters of one message share.
    addresses: dict[tuple[str, str, bool, bool, int], list[Message]] = {}
    slots: list[Message | list[Message]] = []
    for message in messages:
        max_events = _max_batch_size(message)
        if max_events == 1 or message.content_type != EVENT_TYPE:
            slots.append(message)
            continue
        address = (message.exchange, message.routing_key, message.mandatory, message.persistent, max_events)
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
    """True if an attempt has come too early and goes to a delay queue (`build_delayed_message`)."""
    due = event.data.not_before
    return due is not None and topology.delay_level_for(due - now) is not None


def build_delayed_message(event: AttemptDispatched, now: datetime) -> Message:
    """A dispatch by way of the ladder until `not_before`; straight to its queue if it is not early."""
    message = build_message(event)
    level = topology.delay_level_for((event.data.not_before or now) - now)
    return message if level is None else delayed_by(message, level)


def delayed_by(message: Message, level: topology.DelayLevel) -> Message:
    """A dispatch that first waits on `level`, whatever its time is."""
    return message._replace(
        exchange=topology.DELAY, routing_key=f"{level.name}.{message.routing_key}", mandatory=False
    )


def batch_parked(messages: Iterable[Message]) -> list[Message]:
    """The same, with fewer parked messages: where more than PARKED_ALONE events of one queue are parked for
    one reason, those after them are parked as batches. All other letters stay as they are."""
    found: list[Message] = []
    groups: dict[tuple[str | None, ...], list[Message]] = {}
    for message in messages:
        if message.exchange == topology.DEAD and message.content_type == EVENT_TYPE:
            headers = message.headers
            came = headers.get(ORIGINAL_EXCHANGE), headers.get(ORIGINAL_ROUTING_KEY)
            groups.setdefault((headers["warrener-reason"], message.routing_key, *came), []).append(message)
        else:
            found.append(message)
    for (reason, *_), group in groups.items():
        alone = len(group) if reason == Reason.NOT_JSON else MAX_PARKED_SINGLY  # no JSON fits into no array
        found += group[:alone]
        found += (_batch_of(part, part[0].headers) for part in _parts(group[alone:], _MAX_PARKED_BATCH_BYTES))
    return found


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
    """A message that cannot be understood, as it came (`truncate_parked`), with the reason.

    `came` says how it came, under CAME_EXCHANGE, CAME_KEY and CAME_ID, where its queue alone does not say
    enough to send it in again.
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
    """True if all of a parked message is kept, by the sentence about it (`truncate_parked`)."""
    return not (detail.startswith("the first ") and " bytes are kept (SHA-256 " in detail)


def truncate_parked(body: bytes, detail: str) -> tuple[bytes, str]:
    """What is kept of a parked message, and the sentence about it: the whole, but of a message that is larger
    than any of ours the beginning."""
    if len(body) <= topology.MAX_MESSAGE:
        return body, detail
    beginning = (
        f"the first {_TRUNCATED_BYTES} of {len(body)} bytes are kept (SHA-256 {sha256(body).hexdigest()})"
    )
    return body[:_TRUNCATED_BYTES], f"{beginning}; {detail}"


def encode(event: BaseModel) -> bytes:
    """The event as JSON; attributes without a value are left out, as CloudEvents asks. Nulls inside of
    arguments and results stay."""
    return event.model_dump_json(exclude_none=True).encode()


def message_id(name: str) -> str:
    """`name` as a message id: itself where AMQP allows it, else a UUIDv5 of it."""
    if len(name) <= _MAX_ID_BYTES // 4 or len(name.encode()) <= _MAX_ID_BYTES:  # 4 bytes a character
        return name
    return str(uuid5(_LONG_NAMES, name))


def trace_headers(event: Event[Any]) -> dict[str, str]:
    """W3C trace context, for tools that read headers and not bodies."""
    if not event.traceparent and not event.tracestate:  # as most are
        return {}
    context = {"traceparent": event.traceparent, "tracestate": event.tracestate}
    return {name: value for name, value in context.items() if value}


def _max_batch_size(message: Message) -> int:
    """How many of its kind a message may have."""
    return _UNLIMITED if message.exchange in _BATCHED_EXCHANGES else message.per_message


def _batch_by_size(messages: Sequence[Message]) -> list[Message]:
    """Letters of one address, as many in a message as there is room for."""
    return [_batch_of(part) for part in _parts(messages, MAX_BATCH_BYTES, _max_batch_size(messages[0]))]


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


def _build_message(event: Event[Any], body: bytes) -> Message:
    exchange, key = address_of(event)
    return Message(
        exchange=exchange,
        routing_key=key,
        body=body,
        content_type=EVENT_TYPE,
        message_id=message_id(event.id),
        type=event.type,
        headers=trace_headers(event),
        persistent=not isinstance(event, _TRANSIENT_EVENTS),
        mandatory=exchange in _MANDATORY,
    )

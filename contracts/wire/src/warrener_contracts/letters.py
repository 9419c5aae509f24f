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
from warrener_contracts.portable import legible

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"


class Letter(NamedTuple):
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


CAME_EXCHANGE, CAME_KEY, CAME_ID = "warrener-exchange", "warrener-routing-key", "warrener-message-id"
"""Headers of a parked message, and of one that is sent in again: by which exchange, routing key and message
id it first came."""

MAX_GATHERED = 32 * 1024
"""Bytes of a gathered message; what is larger by itself goes alone. Some hundred events: more would save
nothing, and a reader holds as many messages as its prefetch allows."""

PARKED_ALONE = 100
"""Events of one queue that are parked one by one, for one reason, of what is handled at once."""
_PARKED_BYTES = 256 * 1024
_KEPT = 64 * 1024  # bytes of a message that is too large for any queue of ours
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

# Nobody has to listen to these; the others wait for a queue, or say that there is none.
_MANDATORY = frozenset({topology.REQUESTS, topology.DISPATCH})
_FLEETING = (AgentHeartbeat, AgentHeartbeatRequested, AttemptCancel)
_GATHERING = frozenset({topology.REQUESTS, topology.STATUS, topology.EVENTS})
_ANY_NUMBER = 1_000_000
_SHORT = 255  # bytes; what AMQP allows a message id to have
_LONG_NAMES = UUID("b40e0853-b43a-5cff-81b0-74ce3fbc7d87")  # uuid5(NAMESPACE_DNS, "warrener.long-names")


def letter_for(event: Event[Any]) -> Letter:
    """`event` as one message, at the address that its kind has."""
    return _letter(event, encode(event))


def reply_letter(event: Event[Any], address: str) -> Letter:
    """`event` as an answer to one asker; its message id differs from that of the same event told to all."""
    return addressed_to(letter_for(event), address)


def addressed_to(letter: Letter, address: str) -> Letter:
    """What `letter` says, as an answer to one asker: for many askers it is encoded once."""
    return letter._replace(
        exchange=topology.EVENTS,
        routing_key=topology.reply_key(address),
        message_id=message_id(f"{letter.message_id}>{address}"),
    )


def judged_letter(event: Event[Any]) -> Letter:
    """What is asked of the one who judges and keeps watch, to it: the supervisor."""
    name = uuid5(job_id_of(event.source, event.id), f"{event.type}\nforwarded")  # safe, whatever its id is
    return letter_for(event)._replace(exchange=topology.STATUS, message_id=str(name), mandatory=False)


def gathered(letters: Iterable[Letter]) -> list[Letter]:
    """The same events in fewer messages: those of one address together, in their order, up to MAX_GATHERED.

    For requests, news of attempts and what is told of jobs: who reads these reads batches, and takes each
    element by itself. All other letters stay as they are, but for those that say how many of their kind may
    share a message: a dispatch is one message, unless its job type was declared otherwise.
    """
    # By what the letters of one message share.
    addresses: dict[tuple[str, str, bool, bool, int], list[Letter]] = {}
    gathering: list[Letter | list[Letter]] = []
    for letter in letters:
        most = _most(letter)
        if most == 1 or letter.content_type != EVENT_TYPE:
            gathering.append(letter)
            continue
        address = (letter.exchange, letter.routing_key, letter.mandatory, letter.persistent, most)
        known = addresses.get(address)
        if known is None:
            known = addresses[address] = []
            gathering.append(known)
        known.append(letter)
    return [
        letter for found in gathering for letter in ([found] if isinstance(found, Letter) else _joined(found))
    ]


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
    return letter._replace(
        exchange=topology.DELAY, routing_key=f"{rung.name}.{letter.routing_key}", mandatory=False
    )


def parked_together(letters: Iterable[Letter]) -> list[Letter]:
    """The same, with fewer parked messages: where more than PARKED_ALONE events of one queue are parked for
    one reason, those after them are parked as batches. All other letters stay as they are."""
    found: list[Letter] = []
    alike: dict[tuple[str | None, ...], list[Letter]] = {}
    for letter in letters:
        if letter.exchange == topology.DEAD and letter.content_type == EVENT_TYPE:
            headers = letter.headers
            came = headers.get(CAME_EXCHANGE), headers.get(CAME_KEY)
            alike.setdefault((headers["warrener-reason"], letter.routing_key, *came), []).append(letter)
        else:
            found.append(letter)
    for (reason, *_), group in alike.items():
        alone = len(group) if reason == Reason.NOT_JSON else PARKED_ALONE  # no JSON fits into no array
        found += group[:alone]
        found += (_batch_of(part, part[0].headers) for part in _parts(group[alone:], _PARKED_BYTES))
    return found


def parked_letter(
    *,
    queue: str,
    body: bytes,
    reason: str,
    detail: str,
    message_id: str,
    content_type: str | None,
    came: Mapping[str, str] = _NO_HEADERS,
) -> Letter:
    """A message that cannot be understood, as it came (`kept_of`), with the reason.

    `came` says how it came, under CAME_EXCHANGE, CAME_KEY and CAME_ID, where its queue alone does not say
    enough to send it in again.
    """
    body, detail = kept_of(body, detail)
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
            **came,
        },
    )


def is_whole(detail: str) -> bool:
    """True if all of a parked message is kept, by the sentence about it (`kept_of`)."""
    return not (detail.startswith("the first ") and " bytes are kept (SHA-256 " in detail)


def kept_of(body: bytes, detail: str) -> tuple[bytes, str]:
    """What is kept of a parked message, and the sentence about it: the whole, but of a message that is larger
    than any of ours the beginning."""
    if len(body) <= topology.MAX_MESSAGE:
        return body, detail
    beginning = f"the first {_KEPT} of {len(body)} bytes are kept (SHA-256 {sha256(body).hexdigest()})"
    return body[:_KEPT], f"{beginning}; {detail}"


def encode(event: BaseModel) -> bytes:
    """The event as JSON; attributes without a value are left out, as CloudEvents asks. Nulls inside of
    arguments and results stay."""
    return event.model_dump_json(exclude_none=True).encode()


def message_id(name: str) -> str:
    """`name` as a message id: itself where AMQP allows it, else a UUIDv5 of it."""
    if len(name) <= _SHORT // 4 or len(name.encode()) <= _SHORT:  # no character has more than four bytes
        return name
    return str(uuid5(_LONG_NAMES, name))


def trace_headers(event: Event[Any]) -> dict[str, str]:
    """W3C trace context, for tools that read headers and not bodies."""
    if not event.traceparent and not event.tracestate:  # as most are
        return {}
    context = {"traceparent": event.traceparent, "tracestate": event.tracestate}
    return {name: value for name, value in context.items() if value}


def _most(letter: Letter) -> int:
    """How many of its kind a message may have."""
    return _ANY_NUMBER if letter.exchange in _GATHERING else letter.per_message


def _joined(letters: Sequence[Letter]) -> list[Letter]:
    """Letters of one address, as many in a message as there is room for."""
    return [_batch_of(part) for part in _parts(letters, MAX_GATHERED, _most(letters[0]))]


def _parts(letters: Sequence[Letter], most_bytes: int, most: int = _ANY_NUMBER) -> list[list[Letter]]:
    parts: list[list[Letter]] = []
    room = 0
    for letter in letters:
        size = len(letter.body) + 1  # and a comma
        if size > room or not parts or len(parts[-1]) == most:
            parts.append([])
            room = most_bytes - 1
        parts[-1].append(letter)
        room -= size
    return parts


def _batch_of(letters: Sequence[Letter], headers: Mapping[str, str] = _NO_HEADERS) -> Letter:
    first = letters[0]
    if len(letters) == 1:
        return first
    return first._replace(
        body=b"[" + b",".join(letter.body for letter in letters) + b"]",
        content_type=BATCH_TYPE,
        message_id=message_id(f"{first.message_id}+{len(letters) - 1}"),
        type="batch",
        headers=headers,
    )


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

"""Bytes into events. What cannot be understood comes back with the reason and the bytes, never as an
exception: the caller parks it, and the elements beside it go on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import from_json

from warrener_contracts.elements import Elements, exceeds
from warrener_contracts.events import AttemptDispatched, Event, Reason
from warrener_contracts.letters import BATCH_TYPE, EVENT_TYPE
from warrener_contracts.portable import is_array, is_object, suspect, unportable
from warrener_contracts.registry import BY_TYPE, REGISTRY, RELEASED, UPCASTERS, Registry, type_of
from warrener_contracts.topology import MAX_EVENTS, MAX_MESSAGE
from warrener_contracts.unreadable import Unreadable, counts, explain, identity_of, unreadable

if TYPE_CHECKING:
    from dataclasses import dataclass as checked
else:
    from dataclasses import dataclass

    def checked(*, frozen: bool, slots: bool) -> object:
        """As `dataclass`, but who keeps it frozen are the type checkers: with a guard at runtime it takes
        twice as long to make, and one is made for every event that is read."""
        assert frozen
        return dataclass(slots=slots)


__all__ = ["BY_TYPE", "RELEASED", "UPCASTERS", "Readable", "Unreadable", "decode", "decode_parts", "type_of"]

MAX_UNREADABLE = 20
"""Unreadable events of one message that are parked and answered one by one; the others go together."""
_PART = 250
"""Events of a batch that are judged one by one before the caller's event loop may run."""


@checked(frozen=True, slots=True)
class Readable:
    """One event, in its current version. Two that say the same are equal, however they were written."""

    event: Event[Any]
    source: bytes | Elements = field(compare=False, repr=False)
    place: int = field(default=0, compare=False, repr=False)

    @property
    def body(self) -> bytes:
        """What it was read from, as it came, unknown fields and all; of a batch, the element's own text."""
        return self.source if isinstance(self.source, bytes) else self.source[self.place]

    @property
    def identity(self) -> str:
        """A name for its bytes, as `Unreadable.identity`."""
        return identity_of(self.body)


def decode(
    body: bytes,
    content_type: str | None = None,
    *,
    limit: int = MAX_MESSAGE,
    max_events: int = MAX_EVENTS,
    registry: Registry = REGISTRY,
) -> list[Readable | Unreadable]:
    """The events in one message: one, or several of a CloudEvents batch.

    Never raises, whatever the bytes; never empty but for an empty batch. JSON types are taken strictly ("3"
    is no number) and unknown fields are ignored. The door for requests sets `limit` to MAX_BODY.

    A batch of more than `max_events` elements, or without one object among them, is one Unreadable and is not
    read further. Of a batch with more than MAX_UNREADABLE unreadable events, those after them are one
    Unreadable, the last one: what a message can make us park, answer and log is bounded.
    """
    parts = decode_parts(body, content_type, limit=limit, max_events=max_events, registry=registry)
    return [found for part in parts for found in part]


def decode_parts(
    body: bytes,
    content_type: str | None = None,
    *,
    limit: int = MAX_MESSAGE,
    max_events: int = MAX_EVENTS,
    registry: Registry = REGISTRY,
) -> Iterable[list[Readable | Unreadable]]:
    """What `decode` returns, in parts: a service lets its event loop run between two of them."""
    if len(body) > limit:
        detail = f"expected at most {limit} bytes, got {len(body)}: put the data elsewhere and send its URL"
        asker: dict[str, Any] | None = None if len(body) <= MAX_MESSAGE else {}
        return ([unreadable(Reason.TOO_LARGE, detail, body, asker, content_type)],)
    if content_type is None or content_type == EVENT_TYPE:  # as most are
        return ([_decode_one(body, content_type, registry)],)
    if content_type.partition(";")[0].strip().lower() == BATCH_TYPE:
        return _decode_batch(body, content_type, max_events, registry)
    return ([_decode_one(body, content_type, registry)],)


def _decode_one(body: bytes, content_type: str | None, registry: Registry) -> Readable | Unreadable:
    try:
        event = registry.one.validate_json(body, strict=True)
    except ValidationError as error:
        return explain(body, error, registry.by_type, content_type)
    if suspect(body) and (finding := unportable(from_json(body))):
        return unreadable(Reason.BAD_FIELDS, f"{event.type}: {finding}", body, content_type=content_type)
    try:
        return Readable(registry.current(event), body)
    except ValidationError as error:  # of an older version, and what it says has no place in the current one
        detail = f"{event.type} in its current version: {error}"
        return unreadable(Reason.BAD_FIELDS, detail, body, content_type=content_type)


def _decode_batch(
    body: bytes, content_type: str, max_events: int, registry: Registry
) -> Iterator[list[Readable | Unreadable]]:
    if exceeds(body, max_events):  # before one of them is made
        detail = f"expected at most {max_events} events in one message, got more: send several messages"
        yield [unreadable(Reason.TOO_LARGE, detail, body, {}, content_type)]
        return
    if (readable := _all_readable(body, registry)) is not None:
        yield readable
    elif (wrong := _no_batch(body)) is not None:
        yield [unreadable(*wrong, body, content_type=content_type)]
    else:
        yield from _one_by_one(Elements(body).texts, registry)


def _all_readable(body: bytes, registry: Registry) -> list[Readable | Unreadable] | None:
    """The events of a batch in one pass; None where one is bad: then each is read by itself."""
    if suspect(body):
        return None
    try:
        events = registry.many.validate_json(body, strict=True)
        texts = Elements(body)  # not looked for yet: most are never asked for
        return [Readable(registry.current(event), texts, place) for place, event in enumerate(events)]
    except ValidationError:
        return None


def _no_batch(body: bytes) -> tuple[Reason, str] | None:
    """Why `body` is no JSON array of events at all."""
    try:
        elements: object = from_json(body)
    except ValueError as error:
        return Reason.NOT_JSON, f"expected a JSON array of events, got {error}"
    if not is_array(elements):
        return Reason.NOT_AN_EVENT, "expected a JSON array of events, got one value"
    if elements and not any(map(is_object, elements)):
        return Reason.NOT_AN_EVENT, f"expected a JSON array of events, got {len(elements)} other values"
    return None


def _one_by_one(texts: Sequence[bytes], registry: Registry) -> Iterator[list[Readable | Unreadable]]:
    unreadables = 0
    rest: list[bytes] = []
    reasons: Counter[Reason] = Counter()
    for begin in range(0, len(texts), _PART):
        part: list[Readable | Unreadable] = []
        for text in texts[begin : begin + _PART]:
            found = _decode_one(text, EVENT_TYPE, registry)
            if isinstance(found, Unreadable):
                unreadables += 1
                if unreadables > MAX_UNREADABLE:
                    rest.append(text)
                    reasons[found.reason] += 1
                    continue
            part.append(found)
        yield part
    if rest:
        detail = f"{len(rest)} more unreadable events of one message: {counts(reasons)}"
        body = b"[" + b",".join(rest) + b"]"
        yield [unreadable(reasons.most_common(1)[0][0], detail, body, {}, BATCH_TYPE)]


def attempts_in(body: bytes, content_type: str | None) -> list[tuple[UUID, int]]:
    """The attempts that a message of ours dispatches: job and number."""
    return [
        (found.event.data.job_id, found.event.data.attempt)
        for found in decode(body, content_type)
        if isinstance(found, Readable) and isinstance(found.event, AttemptDispatched)
    ]

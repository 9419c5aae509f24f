"""Bytes into events. What cannot be understood comes back with the reason and the bytes, never as an
exception: the caller parks it, and the elements beside it go on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import from_json

from warrener_contracts.decode_failures import (
    DecodeFailure,
    decode_failure,
    explain,
    format_reason_counts,
    identity_of,
)
from warrener_contracts.events import AttemptDispatched, Event, Reason
from warrener_contracts.json_array import JsonArrayElements, has_more_elements_than
from warrener_contracts.json_safety import find_unsafe_value, is_array, is_object, may_be_unsafe
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE
from warrener_contracts.registry import BY_TYPE, REGISTRY, RELEASED, UPCASTERS, Registry, type_of
from warrener_contracts.topology import MAX_EVENTS, MAX_MESSAGE

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_dataclass
else:
    from dataclasses import dataclass

    def frozen_dataclass(*, frozen: bool, slots: bool) -> object:
        """As `dataclass`, but who keeps it frozen are the type checkers: with a guard at runtime it takes
        twice as long to make, and one is made for every event that is read."""
        assert frozen
        return dataclass(slots=slots)


__all__ = [
    "BY_TYPE",
    "RELEASED",
    "UPCASTERS",
    "DecodeFailure",
    "DecodedEvent",
    "decode",
    "decode_parts",
    "type_of",
]

MAX_DECODE_FAILURES = 20
"""Unreadable events of one message that are parked and answered one by one; the others go together."""
_EVENTS_PER_PART = 250
"""Events of a batch that are judged one by one before the caller's event loop may run."""


@frozen_dataclass(frozen=True, slots=True)
class DecodedEvent:
    """One event, in its current version. Two that say the same are equal, however they were written."""

    event: Event[Any]
    source: bytes | JsonArrayElements = field(compare=False, repr=False)
    index: int = field(default=0, compare=False, repr=False)

    @property
    def body(self) -> bytes:
        """What it was read from, as it came, unknown fields and all; of a batch, the element's own text."""
        return self.source if isinstance(self.source, bytes) else self.source[self.index]

    @property
    def identity(self) -> str:
        """A name for its bytes, as `DecodeFailure.identity`."""
        return identity_of(self.body)


def decode(
    body: bytes,
    content_type: str | None = None,
    *,
    limit: int = MAX_MESSAGE,
    max_events: int = MAX_EVENTS,
    registry: Registry = REGISTRY,
) -> list[DecodedEvent | DecodeFailure]:
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
) -> Iterable[list[DecodedEvent | DecodeFailure]]:
    """What `decode` returns, in parts: a service lets its event loop run between two of them."""
    if len(body) > limit:
        detail = f"expected at most {limit} bytes, got {len(body)}: put the data elsewhere and send its URL"
        raw_event: dict[str, Any] | None = None if len(body) <= MAX_MESSAGE else {}
        return ([decode_failure(Reason.TOO_LARGE, detail, body, raw_event, content_type)],)
    if content_type is None or content_type == EVENT_TYPE:  # as most are
        return ([_decode_one(body, content_type, registry)],)
    if content_type.partition(";")[0].strip().lower() == BATCH_TYPE:
        return _decode_batch(body, content_type, max_events, registry)
    return ([_decode_one(body, content_type, registry)],)


def _decode_one(body: bytes, content_type: str | None, registry: Registry) -> DecodedEvent | DecodeFailure:
    try:
        event = registry.one.validate_json(body, strict=True)
    except ValidationError as error:
        return explain(body, error, registry.by_type, content_type)
    if may_be_unsafe(body) and (finding := find_unsafe_value(from_json(body))):
        return decode_failure(Reason.BAD_FIELDS, f"{event.type}: {finding}", body, content_type=content_type)
    try:
        return DecodedEvent(registry.current(event), body)
    except ValidationError as error:  # of an older version, and what it says has no place in the current one
        detail = f"{event.type} in its current version: {error}"
        return decode_failure(Reason.BAD_FIELDS, detail, body, content_type=content_type)


def _decode_batch(
    body: bytes, content_type: str, max_events: int, registry: Registry
) -> Iterator[list[DecodedEvent | DecodeFailure]]:
    if has_more_elements_than(body, max_events):  # before one of them is made
        detail = f"expected at most {max_events} events in one message, got more: send several messages"
        yield [decode_failure(Reason.TOO_LARGE, detail, body, {}, content_type)]
        return
    if (readable := _decode_all(body, registry)) is not None:
        yield readable
    elif (wrong := _explain_invalid_batch(body)) is not None:
        yield [decode_failure(*wrong, body, content_type=content_type)]
    else:
        yield from _decode_one_by_one(JsonArrayElements(body).texts, registry)


def _decode_all(body: bytes, registry: Registry) -> list[DecodedEvent | DecodeFailure] | None:
    """The events of a batch in one pass; None where one is bad: then each is read by itself."""
    if may_be_unsafe(body):
        return None
    try:
        events = registry.many.validate_json(body, strict=True)
        texts = JsonArrayElements(body)  # not looked for yet: most are never asked for
        return [DecodedEvent(registry.current(event), texts, index) for index, event in enumerate(events)]
    except ValidationError:
        return None


def _explain_invalid_batch(body: bytes) -> tuple[Reason, str] | None:
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


def _decode_one_by_one(
    texts: Sequence[bytes], registry: Registry
) -> Iterator[list[DecodedEvent | DecodeFailure]]:
    failures = 0
    rest: list[bytes] = []
    reasons: Counter[Reason] = Counter()
    for begin in range(0, len(texts), _EVENTS_PER_PART):
        part: list[DecodedEvent | DecodeFailure] = []
        for text in texts[begin : begin + _EVENTS_PER_PART]:
            found = _decode_one(text, EVENT_TYPE, registry)
            if isinstance(found, DecodeFailure):
                failures += 1
                if failures > MAX_DECODE_FAILURES:
                    rest.append(text)
                    reasons[found.reason] += 1
                    continue
            part.append(found)
        yield part
    if rest:
        detail = f"{len(rest)} more unreadable events of one message: {format_reason_counts(reasons)}"
        body = b"[" + b",".join(rest) + b"]"
        yield [decode_failure(reasons.most_common(1)[0][0], detail, body, {}, BATCH_TYPE)]


def dispatched_attempts(body: bytes, content_type: str | None) -> list[tuple[UUID, int]]:
    """The attempts that a message of ours dispatches: job and number."""
    return [
        (found.event.data.job_id, found.event.data.attempt)
        for found in decode(body, content_type)
        if isinstance(found, DecodedEvent) and isinstance(found.event, AttemptDispatched)
    ]

"""Bytes into events. What cannot be understood comes back with the reason and the bytes, never as an
exception: the caller parks it, and the elements beside it go on."""

from dataclasses import field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import from_json

from warrener_contracts.elements import Elements
from warrener_contracts.events import Event, Reason
from warrener_contracts.letters import BATCH_TYPE
from warrener_contracts.portable import is_array, suspect, unportable
from warrener_contracts.registry import BY_TYPE, REGISTRY, RELEASED, UPCASTERS, Registry, type_of
from warrener_contracts.topology import MAX_MESSAGE
from warrener_contracts.unreadable import Unreadable, explain, identity_of, unreadable

if TYPE_CHECKING:
    from dataclasses import dataclass as checked
else:
    from dataclasses import dataclass

    def checked(*, frozen: bool, slots: bool) -> object:
        """As `dataclass`, but who keeps it frozen are the type checkers: with a guard at runtime it takes
        twice as long to make, and one is made for every event that is read."""
        assert frozen
        return dataclass(slots=slots)


__all__ = ["BY_TYPE", "RELEASED", "UPCASTERS", "Readable", "Unreadable", "decode", "type_of"]


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
    body: bytes, content_type: str | None = None, *, limit: int = MAX_MESSAGE, registry: Registry = REGISTRY
) -> list[Readable | Unreadable]:
    """The events in one message: one, or several of a CloudEvents batch.

    Never raises, whatever the bytes; never empty but for an empty batch. JSON types are taken strictly ("3"
    is no number) and unknown fields are ignored. The door for requests sets `limit` to MAX_BODY.
    """
    if len(body) > limit:
        detail = f"expected at most {limit} bytes, got {len(body)}: put the data elsewhere and send its URL"
        return [unreadable(Reason.TOO_LARGE, detail, body, None if len(body) <= MAX_MESSAGE else {})]
    if content_type is not None and content_type.partition(";")[0].strip().lower() == BATCH_TYPE:
        return _decode_batch(body, registry)
    return [_decode_one(body, registry)]


def _decode_one(body: bytes, registry: Registry) -> Readable | Unreadable:
    try:
        event = registry.one.validate_json(body, strict=True)
    except ValidationError as error:
        return explain(body, error, registry.by_type)
    if suspect(body) and (finding := unportable(from_json(body))):
        return unreadable(Reason.BAD_FIELDS, f"{event.type}: {finding}", body)
    try:
        return Readable(registry.current(event), body)
    except ValidationError as error:  # of an older version, and what it says has no place in the current one
        return unreadable(Reason.BAD_FIELDS, f"{event.type} in its current version: {error}", body)


def _decode_batch(body: bytes, registry: Registry) -> list[Readable | Unreadable]:
    if not suspect(body):
        try:
            events = registry.many.validate_json(body, strict=True)
            texts = Elements(body)  # not looked for yet: most are never asked for
            return [Readable(registry.current(event), texts, place) for place, event in enumerate(events)]
        except ValidationError:
            pass  # at least one is bad: each by itself
    try:
        elements: object = from_json(body)
    except ValueError as error:
        return [unreadable(Reason.NOT_JSON, f"expected a JSON array of events, got {error}", body, {})]
    if not is_array(elements):
        return [unreadable(Reason.NOT_AN_EVENT, "expected a JSON array of events, got one value", body)]
    return [_decode_one(text, registry) for text in Elements(body).texts]

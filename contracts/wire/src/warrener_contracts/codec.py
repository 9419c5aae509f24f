"""Bytes into events. What cannot be understood comes back with the reason and the bytes, never as an exception:
the caller parks it, and the elements beside it go on."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union
from uuid import UUID, uuid5

from pydantic import Field, TypeAdapter, ValidationError

from warrener_contracts import events
from warrener_contracts.events import Event, JsonObject, Reason
from warrener_contracts.letters import BATCH_TYPE
from warrener_contracts.topology import MAX_MESSAGE

RELEASED: tuple[type[Event[Any]], ...] = tuple(
    kind
    for name in events.__all__
    if isinstance(kind := getattr(events, name), type) and issubclass(kind, Event) and kind is not Event
)
"""Every released version of every event."""


def type_of(kind: type[Event[Any]]) -> str:
    """The CloudEvents `type` of an event class: `job.requested.v1`."""
    return str(kind.model_fields["type"].default)


BY_TYPE: Mapping[str, type[Event[Any]]] = {type_of(kind): kind for kind in RELEASED}

UpCaster = Callable[[JsonObject], JsonObject]
UPCASTERS: Mapping[str, UpCaster] = {}
"""From an older released `type` to the JSON of the next version; applied until a current one is reached."""

_ANY: TypeAdapter[Event[Any]] = TypeAdapter(
    Annotated[Union[RELEASED], Field(discriminator="type")]  # type: ignore[valid-type]  # pyright: ignore
)
_NO_ID = UUID("ab072b26-5e10-5f7a-9430-d93ed956ccca")


@dataclass(frozen=True, slots=True)
class Readable:
    """One event."""

    event: Event[Any]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What came instead of an event. `asker` is what could be read of it, for the answer."""

    reason: Reason
    detail: str
    body: bytes
    asker: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """A name for it: the same bytes are the same parked message."""
        return str(uuid5(_NO_ID, self.body.hex()))


def decode(
    body: bytes, content_type: str | None = None, *, limit: int = MAX_MESSAGE
) -> list[Readable | Unreadable]:
    """The events in one message: one, or several of a CloudEvents batch. Never raises, never empty
    but for an empty batch. The door for requests sets `limit` to MAX_BODY."""
    if len(body) > limit:
        detail = f"expected at most {limit} bytes, got {len(body)}: put the data elsewhere and send its URL"
        return [Unreadable(Reason.TOO_LARGE, detail, body, {})]
    if content_type != BATCH_TYPE:
        return [_decode_one(body)]
    try:
        elements: object = json.loads(body)
    except (ValueError, RecursionError) as error:  # nested too deeply
        return [Unreadable(Reason.NOT_JSON, f"expected a JSON array, got: {error}", body, {})]
    if not isinstance(elements, list):
        return [Unreadable(Reason.NOT_AN_EVENT, "expected a JSON array of events, got one value", body, {})]
    return _decode_batch(body, elements)


_BATCH: TypeAdapter[list[Event[Any]]] = TypeAdapter(
    list[Annotated[Union[RELEASED], Field(discriminator="type")]]  # type: ignore[valid-type]  # pyright: ignore
)


def _decode_batch(body: bytes, elements: list[Any]) -> list[Readable | Unreadable]:
    try:
        return [Readable(event) for event in _BATCH.validate_json(body)]
    except ValidationError:  # at least one is bad: each by itself
        return [_decode_one(json.dumps(element).encode()) for element in elements]


def _decode_one(body: bytes) -> Readable | Unreadable:
    try:
        return Readable(_ANY.validate_json(body))
    except ValidationError as error:
        return _upcast(body) or _explain(body, error)


def _upcast(body: bytes) -> Readable | None:
    raw = _raw(body)
    seen = 0
    while raw is not None and (caster := UPCASTERS.get(str(raw.get("type")))) and seen <= len(UPCASTERS):
        raw, seen = caster(raw), seen + 1
    if not seen:
        return None
    try:
        return Readable(_ANY.validate_python(raw))
    except ValidationError:
        return None


def _raw(body: bytes) -> JsonObject | None:
    try:
        raw: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return {str(key): value for key, value in raw.items()} if isinstance(raw, dict) else None


def _explain(body: bytes, error: ValidationError) -> Unreadable:
    raw = _raw(body)
    if raw is None:
        first = error.errors(include_url=False, include_context=False)[0]
        reason = Reason.NOT_JSON if first["type"] == "json_invalid" else Reason.NOT_AN_EVENT
        return Unreadable(reason, f"expected one CloudEvent as JSON, got: {first['msg']}", body, {})
    return Unreadable(*_diagnose(raw, error), body, raw)


def _diagnose(raw: JsonObject, error: ValidationError) -> tuple[Reason, str]:
    named = raw.get("type")
    if not isinstance(named, str) or "specversion" in {str(e["loc"][-1]) for e in error.errors() if e["loc"]}:
        return Reason.NOT_AN_EVENT, (
            f'expected a CloudEvent with "specversion": "1.0" and a "type", got type {named!r} and '
            f"specversion {raw.get('specversion')!r}"
        )
    if named not in BY_TYPE:
        return _unknown(named)
    if not raw.get("id"):
        return Reason.MISSING_ID, (
            'expected an "id" that is the same whenever this request is repeated (a UUID is best), got none: '
            "without it a repeat could not be told from a new request"
        )
    lines = [f"{'.'.join(str(part) for part in e['loc'][1:])}: {e['msg']}" for e in error.errors(include_url=False)]
    return Reason.BAD_FIELDS, f"{named}: " + "; ".join(lines[:10])


def _unknown(named: str) -> tuple[Reason, str]:
    stem, _, version = named.rpartition(".")
    versions = sorted(known.rpartition(".")[2] for known in BY_TYPE if known.rpartition(".")[0] == stem)
    if versions:
        return Reason.UNKNOWN_VERSION, f"expected {stem} in version {', '.join(versions)}, got {version}"
    return Reason.UNKNOWN_EVENT, f"expected one of {', '.join(sorted(BY_TYPE))}, got {named!r}"

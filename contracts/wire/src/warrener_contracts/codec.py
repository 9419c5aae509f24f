"""Decode bytes into events.

An unreadable event is returned with its bytes and the reason, never raised: the caller parks it and goes on
with the elements beside it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from json import JSONDecoder
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json

from warrener_contracts import json_safety
from warrener_contracts.events import AttemptDispatched, Event, JsonObject, Reason
from warrener_contracts.fields import ReplyAddress
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE
from warrener_contracts.reader import Registry
from warrener_contracts.topology import MAX_EVENTS, MAX_MESSAGE

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_dataclass
else:

    def frozen_dataclass(*, frozen: bool, slots: bool) -> object:
        """A dataclass that type checkers alone keep frozen. A guard at runtime doubles the time to make one,
        and one is made for every event."""
        assert frozen
        return dataclass(slots=slots)


MAX_DECODE_FAILURES = 20
"""Unreadable events of one message that are parked and answered one by one; the others go together."""
_EVENTS_PER_PART = 250  # events of a batch that are decoded one by one before the caller's event loop may run
_MAX_DETAIL = 2_000  # characters
_ADDRESS: TypeAdapter[str] = TypeAdapter(ReplyAddress)
# uuid5(NAMESPACE_DNS, "warrener.parked"). Fixed: the same bytes must stay the same parked message.
_PARKED = UUID("fffe47f1-c9bd-5dc2-9d27-28cbd2f6f9dd")


@frozen_dataclass(frozen=True, slots=True)
class DecodedEvent:
    """An event in its current version. Equality ignores how it was written."""

    event: Event[Any]
    source: "bytes | JsonArrayElements" = field(compare=False, repr=False)
    index: int = field(default=0, compare=False, repr=False)

    @property
    def body(self) -> bytes:
        """The received bytes with their unknown fields; of a batch, the element's own text."""
        return self.source if isinstance(self.source, bytes) else self.source[self.index]

    @property
    def identity(self) -> str:
        """A name for its bytes, as `DecodeFailure.identity`."""
        return identity_of(self.body)


@dataclass(frozen=True, slots=True)
class DecodeFailure:
    """Bytes that are no event, or an event that may not arrive as it did.

    `raw_event` holds the JSON object in them, not validated; replies use the properties below, which are safe
    to send. `content_type` is that of `body`: the message's own, or that of the elements of a batch.
    `arrived_by`: exchange and routing key of its message, if it came by an exchange.
    """

    reason: Reason
    detail: str
    body: bytes
    raw_event: Mapping[str, Any]
    content_type: str | None = None
    arrived_by: tuple[str, str] | None = None

    @property
    def identity(self) -> str:
        """The id of its parked message: the same bytes have the same id."""
        return identity_of(self.body)

    @property
    def request_id(self) -> str:
        """The `id` as received; empty if there is none."""
        return _text(self.raw_event.get("id"))

    @property
    def request_source(self) -> str:
        """The `source` as received; empty if there is none."""
        return _text(self.raw_event.get("source"))

    @property
    def job_type(self) -> str | None:
        """The job type as received; it may not be one at all."""
        return _text(self._data.get("job_type")) or None

    @property
    def reply_to(self) -> str | None:
        """The reply address, if it is valid."""
        try:
            return _ADDRESS.validate_python(self._data.get("reply_to"), strict=True)
        except ValidationError:
            return None

    @property
    def _data(self) -> Mapping[str, Any]:
        data: object = self.raw_event.get("data")
        return data if json_safety.is_object(data) else {}


def decode(
    body: bytes,
    content_type: str | None = None,
    *,
    limit: int = MAX_MESSAGE,
    max_events: int = MAX_EVENTS,
    registry: Registry | None = None,
) -> list[DecodedEvent | DecodeFailure]:
    """Decode one message: one event, or several of a CloudEvents batch.

    Never raises; returns an empty list for an empty batch alone. JSON types are taken strictly ("3" is no
    number) and unknown fields are ignored. `registry` has the events to accept (None: all). The consumer of
    requests sets `limit` to MAX_BODY.

    A batch of more than `max_events` elements, or without an object among them, is one DecodeFailure. In a
    batch, the failures after MAX_DECODE_FAILURES are joined into one, the last element, so that no message
    can cause unlimited parking, replies and logs.
    """
    parts = decode_parts(body, content_type, limit=limit, max_events=max_events, registry=registry)
    return [found for part in parts for found in part]


def decode_parts(
    body: bytes,
    content_type: str | None = None,
    *,
    limit: int = MAX_MESSAGE,
    max_events: int = MAX_EVENTS,
    registry: Registry | None = None,
) -> Iterable[list[DecodedEvent | DecodeFailure]]:
    """As `decode`, in parts, so that a service can let its event loop run between them."""
    registry = registry or _all_events()
    if len(body) > limit:
        detail = f"expected at most {limit} bytes, got {len(body)}: put the data elsewhere and send its URL"
        raw_event: dict[str, Any] | None = None if len(body) <= MAX_MESSAGE else {}
        return ([_decode_failure(Reason.TOO_LARGE, detail, body, raw_event, content_type)],)
    if content_type is None or content_type == EVENT_TYPE:  # as most are
        return ([_decode_one(body, content_type, registry)],)
    if content_type.partition(";")[0].strip().lower() == BATCH_TYPE:
        return _decode_batch(body, content_type, max_events, registry)
    return ([_decode_one(body, content_type, registry)],)


@cache
def _all_events() -> Registry:
    from warrener_contracts.registry import REGISTRY  # noqa: PLC0415 - large, and a reader of replies needs few

    return REGISTRY


def _decode_one(body: bytes, content_type: str | None, registry: Registry) -> DecodedEvent | DecodeFailure:
    try:
        event = registry.one.validate_json(body, strict=True)
    except ValidationError as error:
        return _explain_failure(body, error, registry.by_type, content_type)
    if json_safety.may_be_unsafe(body) and (finding := json_safety.find_unsafe_value(from_json(body))):
        return _decode_failure(Reason.BAD_FIELDS, f"{event.type}: {finding}", body, content_type=content_type)
    try:
        return DecodedEvent(registry.current(event), body)
    except ValidationError as error:  # an older version with values that the current one refuses
        detail = f"{event.type} in its current version: {error}"
        return _decode_failure(Reason.BAD_FIELDS, detail, body, content_type=content_type)


def _decode_batch(
    body: bytes, content_type: str, max_events: int, registry: Registry
) -> Iterator[list[DecodedEvent | DecodeFailure]]:
    if has_more_elements_than(body, max_events):  # checked before the elements are built
        detail = f"expected at most {max_events} events in one message, got more: send several messages"
        yield [_decode_failure(Reason.TOO_LARGE, detail, body, {}, content_type)]
        return
    if (readable := _decode_all(body, registry)) is not None:
        yield readable
    elif (wrong := _explain_invalid_batch(body)) is not None:
        yield [_decode_failure(*wrong, body, content_type=content_type)]
    else:
        yield from _decode_one_by_one(JsonArrayElements(body).texts, registry)


def _decode_all(body: bytes, registry: Registry) -> list[DecodedEvent | DecodeFailure] | None:
    """Decode a batch in one pass; None if one event is bad and each must be decoded by itself."""
    if json_safety.may_be_unsafe(body):
        return None
    try:
        events = registry.many.validate_json(body, strict=True)
        texts = JsonArrayElements(body)  # found lazily: most are never used
        return [DecodedEvent(registry.current(event), texts, index) for index, event in enumerate(events)]
    except ValidationError:
        return None


def _explain_invalid_batch(body: bytes) -> tuple[Reason, str] | None:
    """The reason why `body` is no JSON array of events; None if it is one."""
    try:
        elements: object = from_json(body)
    except ValueError as error:
        return Reason.NOT_JSON, f"expected a JSON array of events, got {error}"
    if not json_safety.is_array(elements):
        return Reason.NOT_AN_EVENT, "expected a JSON array of events, got one value"
    if elements and not any(map(json_safety.is_object, elements)):
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
        yield [join_failures(rest, reasons)]


def join_failures(texts: Sequence[bytes], reasons: Counter[Reason]) -> DecodeFailure:
    """The failures of one message that are parked and answered together, as a batch."""
    detail = f"{len(texts)} more unusable events of one message: {format_reason_counts(reasons)}"
    body = b"[" + b",".join(texts) + b"]"
    return _decode_failure(reasons.most_common(1)[0][0], detail, body, {}, BATCH_TYPE)


def refuse(found: DecodedEvent, reason: Reason, detail: str) -> DecodeFailure:
    """The failure of an event that was decoded and may not be used."""
    return _decode_failure(reason, detail, found.body, content_type=EVENT_TYPE)


def dispatched_attempts(body: bytes, content_type: str | None) -> list[tuple[UUID, int]]:
    """The attempts that a message dispatches: job and number."""
    return [
        (found.event.data.job_id, found.event.data.attempt)
        for found in decode(body, content_type)
        if isinstance(found, DecodedEvent) and isinstance(found.event, AttemptDispatched)
    ]


def identity_of(body: bytes) -> str:
    """The id of the parked message with these bytes."""
    return str(uuid5(_PARKED, body.hex()))


def _decode_failure(
    reason: Reason,
    detail: str,
    body: bytes,
    raw_event: Mapping[str, Any] | None = None,
    content_type: str | None = None,
) -> DecodeFailure:
    """A DecodeFailure whose detail is safe to send and store."""
    known = _read_leniently(body) if raw_event is None else raw_event
    return DecodeFailure(reason, json_safety.sanitize_text(detail, _MAX_DETAIL), body, known, content_type)


def format_reason_counts(reasons: Mapping[Reason, int]) -> str:
    """The counts by reason as text: `bad_fields 3, not_json 1`."""
    return ", ".join(f"{reason.value} {count}" for reason, count in sorted(reasons.items()))


def _read_leniently(body: bytes) -> JsonObject:
    """The JSON object in `body`, without validation; empty if there is none."""
    try:
        raw: object = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return raw if json_safety.is_object(raw) else {}


def _explain_failure(
    body: bytes, error: ValidationError, known: Iterable[str], content_type: str | None = None
) -> DecodeFailure:
    """The failure of a body that is no event of the `known` types."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    raw_event = _read_leniently(body)
    if errors[0]["type"] == "json_invalid":
        detail = f"expected one CloudEvent as JSON, got {errors[0]['msg']}"
        return _decode_failure(Reason.NOT_JSON, detail, body, raw_event, content_type)
    reason, detail = _diagnose(raw_event, errors, sorted(known))
    return _decode_failure(reason, detail, body, raw_event, content_type)


def _diagnose(raw: JsonObject, errors: list[ErrorDetails], known: list[str]) -> tuple[Reason, str]:
    type_name = raw.get("type")
    if not isinstance(type_name, str) or ("specversion",) in {complaint["loc"][1:] for complaint in errors}:
        return Reason.NOT_AN_EVENT, (
            'expected one CloudEvent with "specversion": "1.0" and a "type" (several go under the content '
            f"type application/cloudevents-batch+json), got type {_describe(type_name)} and "
            f"specversion {_describe(raw.get('specversion'))}"
        )
    if type_name not in known:
        return _unknown(type_name, known)
    if raw.get("id", "") in (None, ""):
        return Reason.MISSING_ID, (
            'expected an "id" that is the same whenever this request is repeated (a UUID is best), got none: '
            "without it a repeat would be a new request"
        )
    lines = (f"{'.'.join(str(part) for part in e['loc'][1:])}: {e['msg']}" for e in errors[:10])
    return Reason.BAD_FIELDS, f"{type_name}: {'; '.join(lines)}"


def _unknown(type_name: str, known: list[str]) -> tuple[Reason, str]:
    stem, _, version = type_name.rpartition(".")
    versions = [
        known_type.rpartition(".")[2] for known_type in known if known_type.rpartition(".")[0] == stem
    ]
    if versions:
        return (
            Reason.UNKNOWN_VERSION,
            f"expected {stem} in version {', '.join(versions)}, got {_describe(version)}",
        )
    return Reason.UNKNOWN_EVENT, f"expected one of {', '.join(known)}, got {_describe(type_name)}"


def _describe(value: object) -> str:
    if json_safety.is_object(value) or json_safety.is_array(value):
        return "an object" if json_safety.is_object(value) else "an array"
    return json_safety.sanitize_text(repr(value), 200)


def _text(value: object) -> str:
    return json_safety.sanitize_text(value, 200) if isinstance(value, str) else ""


_WHITESPACE = " \t\n\r"
# Numbers stay text, because only the bounds of a value matter.
_DECODER = JSONDecoder(strict=False, parse_int=str, parse_float=str)


class JsonArrayElements:
    """The texts of the elements of a JSON array, found once, at the first access.

    `body` must be a valid array.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __getitem__(self, index: int) -> bytes:
        return self.texts[index]

    @cached_property
    def texts(self) -> list[bytes]:
        text = self.body.decode(errors="surrogateescape")
        return [text[at:end].encode(errors="surrogateescape") for at, end in _element_bounds(text)]


def has_more_elements_than(body: bytes, limit: int) -> bool:
    """True if the JSON array in `body` has more than `limit` elements.

    Reads one element at a time and stops at the limit. False for other values and for invalid JSON. A body
    with too few commas is not read at all.
    """
    if body.count(b",") < limit:
        return False
    text = body.decode(errors="surrogateescape")
    try:
        return text[_skip_whitespace(text, 0)] == "[" and any(
            index >= limit for index, _ in enumerate(_element_bounds(text))
        )
    except (ValueError, IndexError, RecursionError):
        return False  # not JSON; the decoder reports where


def _element_bounds(text: str) -> Iterator[tuple[int, int]]:
    """The bounds of each element of the array in `text`."""
    at = _skip_whitespace(text, text.index("[") + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _skip_whitespace(text, end)
        if text[at] == ",":
            at = _skip_whitespace(text, at + 1)


def _skip_whitespace(text: str, at: int) -> int:
    while text[at] in _WHITESPACE:
        at += 1
    return at

"""What came instead of an event, and why it could not be read: a sentence for the one who sent it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from warrener_contracts.events import JsonObject, Reason
from warrener_contracts.events.fields import ReplyAddress
from warrener_contracts.json_safety import is_array, is_object, sanitize_text

# uuid5(NAMESPACE_DNS, "warrener.parked"); fixed for ever: the same bytes are the same parked message.
_PARKED = UUID("fffe47f1-c9bd-5dc2-9d27-28cbd2f6f9dd")
_MAX_DETAIL = 2_000  # characters
_ADDRESS: TypeAdapter[str] = TypeAdapter(ReplyAddress)


@dataclass(frozen=True, slots=True)
class DecodeFailure:
    """What came instead of an event. `raw_event` is what could be read of it: anything may stand in it, so an
    answer is made from the properties below, which are safe to send on. `content_type` is that of `body`: the
    message's own, or that of the elements of a batch."""

    reason: Reason
    detail: str
    body: bytes
    raw_event: Mapping[str, Any]
    content_type: str | None = None

    @property
    def identity(self) -> str:
        """A name for it: the same bytes are the same parked message."""
        return identity_of(self.body)

    @property
    def request_id(self) -> str:
        """The `id` as it came; empty if there was none."""
        return _text(self.raw_event.get("id"))

    @property
    def request_source(self) -> str:
        """The `source` as it came; empty if there was none."""
        return _text(self.raw_event.get("source"))

    @property
    def job_type(self) -> str | None:
        """The job type as it came; it may not be one at all."""
        return _text(self._data.get("job_type")) or None

    @property
    def reply_to(self) -> str | None:
        """Where the asker waits for an answer, if that is an address at all."""
        try:
            return _ADDRESS.validate_python(self._data.get("reply_to"), strict=True)
        except ValidationError:
            return None

    @property
    def _data(self) -> Mapping[str, Any]:
        data: object = self.raw_event.get("data")
        return data if is_object(data) else {}


def identity_of(body: bytes) -> str:
    """A name for these bytes: the same bytes are the same parked message."""
    return str(uuid5(_PARKED, body.hex()))


def decode_failure(
    reason: Reason,
    detail: str,
    body: bytes,
    raw_event: Mapping[str, Any] | None = None,
    content_type: str | None = None,
) -> DecodeFailure:
    """An Unreadable whose detail can be sent and stored, whatever the body held."""
    known = read_leniently(body) if raw_event is None else raw_event
    return DecodeFailure(reason, sanitize_text(detail, _MAX_DETAIL), body, known, content_type)


def format_reason_counts(reasons: Mapping[Reason, int]) -> str:
    """How many there are by reason, for people: `bad_fields 3, not_json 1`."""
    return ", ".join(f"{reason.value} {count}" for reason, count in sorted(reasons.items()))


def read_leniently(body: bytes) -> JsonObject:
    """The JSON object in `body`, read as far as Python can; empty if there is none."""
    try:
        raw: object = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return raw if is_object(raw) else {}


def explain(
    body: bytes, error: ValidationError, known: Iterable[str], content_type: str | None = None
) -> DecodeFailure:
    """Why `body` is not an event of one of the `known` types."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    raw_event = read_leniently(body)
    if errors[0]["type"] == "json_invalid":
        detail = f"expected one CloudEvent as JSON, got {errors[0]['msg']}"
        return decode_failure(Reason.NOT_JSON, detail, body, raw_event, content_type)
    reason, detail = _diagnose(raw_event, errors, sorted(known))
    return decode_failure(reason, detail, body, raw_event, content_type)


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
            "without it a repeat could not be told from a new request"
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
    if is_object(value) or is_array(value):
        return "an object" if is_object(value) else "an array"
    return sanitize_text(repr(value), 200)


def _text(value: object) -> str:
    return sanitize_text(value, 200) if isinstance(value, str) else ""

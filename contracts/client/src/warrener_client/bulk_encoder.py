"""Requests in bulk, written as bytes: what many have in common is validated once. Pure."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from warrener_client.errors import BadRequest, RequestTooLarge
from warrener_client.requests import Arguments, JobSpec, RequestEnvelope, build_event, encode_event
from warrener_contracts.json_safety import may_be_unsafe
from warrener_contracts.messages import Message, build_message, message_id
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.telemetry import TraceContext

# What stands in a form where each request has its own; U+F8FF is a letter that nobody uses.
_ID, _KEY = "\uf8ff the request's id", "\uf8ff the request's key"
_ARGUMENTS = {"\uf8ff the request's arguments": True}

# What asks of one kind have in common.
_COMMON_FIELDS = (
    "job_type",
    "queue",
    "delay",
    "not_before",
    "deadline",
    "expires_after",
    "policy",
    "parent_id",
)
_common_fields = attrgetter(*_COMMON_FIELDS)

_MAX_NAME_LENGTH = 200  # characters of an id and of a key, as in the models

# As the model of a request writes them, but for NaN and infinity, which it would write as null: here they
# are to be seen.
_write: Callable[..., bytes] = TypeAdapter(
    dict[str, Any], config=ConfigDict(ser_json_inf_nan="constants")
).serializer.to_json


class _NeedsValidation(Exception):
    """Only validation can tell whether this can be sent, and what is wrong with it if not."""


class _Template(NamedTuple):
    """A request without its id, its arguments and, where it has one, its key."""

    message: Message
    before_id: bytes
    before_arguments: bytes
    before_key: bytes
    end: bytes


class BulkEncoder:
    """Writes the requests of one batch, asked at one moment by one asker.

    Requests of a kind differ in id, arguments and key alone. One of each kind is validated as an event and
    becomes a form; the others are written into copies of it, and only what differs is looked at. Whatever is
    not certain there is validated as a whole: an ask is taken, written and refused as `build_event` and
    `encode_event` do it, and a test holds it to that.
    """

    def __init__(self, source: str, requested_at: datetime, reply_to: str | None) -> None:
        self._source, self._requested_at, self._reply_to = source, requested_at, reply_to
        # Typed, because 1 == True: one may be allowed where the other is not. It is quick with arguments by
        # place alone.
        self._template_for = lru_cache(maxsize=64, typed=True)(self._build_template)

    def encode(self, spec: JobSpec, event_id: str, context: TraceContext) -> Message:
        """The request as a message. Raises BadRequest, RequestTooLarge."""
        try:
            message = self._fill_template(spec, event_id, context)
        # Also what no form can be kept for, because it cannot be hashed or is not what it should be.
        except (_NeedsValidation, BadRequest, TypeError, ValueError, PydanticSerializationError):
            return encode_event(build_event(spec, self._envelope(event_id, context)))
        if len(message.body) > MAX_BODY:
            raise RequestTooLarge(spec.job_type, len(message.body), MAX_BODY)
        return message

    def _fill_template(self, spec: JobSpec, event_id: str, context: TraceContext) -> Message:
        key = spec.idempotency_key
        template = self._template_for(context, key is not None, *_common_fields(spec))
        exchange, routing_key, _, content_type, _, kind, headers, persistent, mandatory, _ = template.message
        pieces = [
            template.before_id,
            _encode_name(event_id),
            template.before_arguments,
            _encode_arguments(spec.arguments),
        ]
        if key is not None:
            pieces += (template.before_key, _encode_name(key))
        pieces.append(template.end)
        return Message(
            exchange,
            routing_key,
            b"".join(pieces),
            content_type,
            message_id(event_id),
            kind,
            headers,
            persistent,
            mandatory,
        )

    def _build_template(self, context: TraceContext, has_key: bool, *common: Any) -> _Template:  # noqa: FBT001 - see _template_for
        spec = JobSpec(
            arguments=_ARGUMENTS,
            idempotency_key=_KEY if has_key else None,
            **dict(zip(_COMMON_FIELDS, common, strict=True)),
        )
        message = build_message(build_event(spec, self._envelope(_ID, context)))
        before_id, rest = _split_once(message.body, to_json(_ID))
        before_arguments, rest = _split_once(rest, to_json(_ARGUMENTS))
        before_key, end = _split_once(rest, to_json(_KEY)) if has_key else (b"", rest)
        return _Template(message, before_id, before_arguments, before_key, end)

    def _envelope(self, event_id: str, context: TraceContext) -> RequestEnvelope:
        return RequestEnvelope(event_id, self._source, self._requested_at, self._reply_to, *context)


def _split_once(text: bytes, mark: bytes) -> tuple[bytes, bytes]:
    before, *after = text.split(mark)
    if len(after) != 1:  # somebody uses that letter after all
        raise _NeedsValidation
    return before, after[0]


def _encode_name(text: str) -> bytes:
    if type(text) is not str or not 0 < len(text) <= _MAX_NAME_LENGTH:
        raise _NeedsValidation
    return to_json(text)


def _encode_arguments(given: Arguments) -> bytes:
    named = given.model_dump(mode="json") if isinstance(given, BaseModel) else dict(given)
    for name in named:
        if type(name) is not str:
            raise _NeedsValidation
    text = _write(named, exclude_none=True)
    # NaN and infinity, U+0000; half a surrogate pair cannot be written at all. As a key, NaN is text.
    if may_be_unsafe(text) or b'nan":' in text or b'inf":' in text:
        raise _NeedsValidation
    return text

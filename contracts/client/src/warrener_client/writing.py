"""Requests in bulk, written as bytes: what many have in common is validated once. Pure."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from warrener_client.asking import Arguments, Ask, Envelope, event_of, sealed
from warrener_client.errors import BadRequest, RequestTooLarge
from warrener_contracts.letters import Letter, letter_for, message_id
from warrener_contracts.portable import suspect
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.telemetry import TraceContext

# What stands in a form where each request has its own; U+F8FF is a letter that nobody uses.
_ID, _KEY = "\uf8ff the request's id", "\uf8ff the request's key"
_ARGUMENTS = {"\uf8ff the request's arguments": True}

# What asks of one kind have in common.
_COMMON = ("job_type", "queue", "delay", "not_before", "deadline", "expires_after", "policy", "parent_id")
_common = attrgetter(*_COMMON)

_LONGEST_NAME = 200  # characters of an id and of a key, as in the models

# As the model of a request writes them, but for NaN and infinity, which it would write as null: here they
# are to be seen.
_write: Callable[..., bytes] = TypeAdapter(
    dict[str, Any], config=ConfigDict(ser_json_inf_nan="constants")
).serializer.to_json


class _Uncertain(Exception):
    """Only validation can tell whether this can be sent, and what is wrong with it if not."""


class _Form(NamedTuple):
    """A request without its id, its arguments and, where it has one, its key."""

    letter: Letter
    before_id: bytes
    before_arguments: bytes
    before_key: bytes
    end: bytes


class Writer:
    """Writes the requests of one batch, asked at one moment by one asker.

    Requests of a kind differ in id, arguments and key alone. One of each kind is validated as an event and
    becomes a form; the others are written into copies of it, and only what differs is looked at. Whatever is
    not certain there is validated as a whole: an ask is taken, written and refused as `event_of` and
    `sealed` do it, and a test holds it to that.
    """

    def __init__(self, source: str, asked_at: datetime, reply_to: str | None) -> None:
        self._source, self._asked_at, self._reply_to = source, asked_at, reply_to
        # Typed, because 1 == True: one may be allowed where the other is not. It is quick with arguments by
        # place alone.
        self._form_of = lru_cache(maxsize=64, typed=True)(self._form)

    def letter(self, ask: Ask, event_id: str, context: TraceContext) -> Letter:
        """The request as a message. Raises BadRequest, RequestTooLarge."""
        try:
            letter = self._filled(ask, event_id, context)
        # Also what no form can be kept for, because it cannot be hashed or is not what it should be.
        except (_Uncertain, BadRequest, TypeError, ValueError, PydanticSerializationError):
            return sealed(event_of(ask, self._envelope(event_id, context)))
        if len(letter.body) > MAX_BODY:
            raise RequestTooLarge(ask.job_type, len(letter.body), MAX_BODY)
        return letter

    def _filled(self, ask: Ask, event_id: str, context: TraceContext) -> Letter:
        key = ask.idempotency_key
        form = self._form_of(context, key is not None, *_common(ask))
        exchange, routing_key, _, content_type, _, kind, headers, persistent, mandatory, _ = form.letter
        pieces = [form.before_id, _name(event_id), form.before_arguments, _arguments(ask.arguments)]
        if key is not None:
            pieces += (form.before_key, _name(key))
        pieces.append(form.end)
        return Letter(
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

    def _form(self, context: TraceContext, has_key: bool, *common: Any) -> _Form:  # noqa: FBT001 - see _form_of
        ask = Ask(
            arguments=_ARGUMENTS,
            idempotency_key=_KEY if has_key else None,
            **dict(zip(_COMMON, common, strict=True)),
        )
        letter = letter_for(event_of(ask, self._envelope(_ID, context)))
        before_id, rest = _cut(letter.body, to_json(_ID))
        before_arguments, rest = _cut(rest, to_json(_ARGUMENTS))
        before_key, end = _cut(rest, to_json(_KEY)) if has_key else (b"", rest)
        return _Form(letter, before_id, before_arguments, before_key, end)

    def _envelope(self, event_id: str, context: TraceContext) -> Envelope:
        return Envelope(event_id, self._source, self._asked_at, self._reply_to, *context)


def _cut(text: bytes, mark: bytes) -> tuple[bytes, bytes]:
    before, *after = text.split(mark)
    if len(after) != 1:  # somebody uses that letter after all
        raise _Uncertain
    return before, after[0]


def _name(text: str) -> bytes:
    if type(text) is not str or not 0 < len(text) <= _LONGEST_NAME:
        raise _Uncertain
    return to_json(text)


def _arguments(given: Arguments) -> bytes:
    named = given.model_dump(mode="json") if isinstance(given, BaseModel) else dict(given)
    for name in named:
        if type(name) is not str:
            raise _Uncertain
    text = _write(named, exclude_none=True)
    # NaN and infinity, U+0000; half a surrogate pair cannot be written at all. As a key, NaN is text.
    if suspect(text) or b'nan":' in text or b'inf":' in text:
        raise _Uncertain
    return text

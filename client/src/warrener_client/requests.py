"""Requests as events on the wire: one by one, and in bulk. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict
from uuid import UUID

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json, to_jsonable_python

from warrener_client.errors import BadRequest, RequestTooLarge
from warrener_contracts import private_payloads as payloads
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import JobRequested, JobRequestedData
from warrener_contracts.fields import DurationLike
from warrener_contracts.json_safety import may_be_unsafe
from warrener_contracts.messages import Message, build_message, message_id
from warrener_contracts.policy import PolicyOverrides, find_unknown_field
from warrener_contracts.reader import Registry
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.telemetry import TraceContext

if TYPE_CHECKING:  # most clients put no schedule
    from warrener_contracts.events import SchedulePutData

Arguments = Mapping[str, Any] | BaseModel
_REQUESTS = Registry((JobRequested,))
_MAX_PROBLEMS = 10  # in an error


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The request for one job.

    `id` is the same in every repeat of a request: a UUID, or a text that is unique for the client's `source`;
    None makes a new one. `traceparent` continues that trace instead of the current one.
    """

    job_type: str
    arguments: Arguments = field(default_factory=dict[str, Any])
    id: UUID | str | None = None
    idempotency_key: str | None = None
    queue: str | None = None
    delay: DurationLike | None = None
    not_before: datetime | None = None
    deadline: datetime | None = None
    expires_after: DurationLike | None = None
    policy: PolicyOverrides | Mapping[str, Any] | None = None
    parent_id: UUID | None = None
    traceparent: str | None = None


class RequestOptions(TypedDict, total=False):
    """The options of `Client.request`."""

    id: UUID | str | None
    idempotency_key: str | None
    queue: str | None
    delay: DurationLike | None
    not_before: datetime | None
    deadline: datetime | None
    expires_after: DurationLike | None
    policy: PolicyOverrides | dict[str, Any] | None
    parent_id: UUID | None
    traceparent: str | None


def read_arguments(model: type[BaseModel], **given: Any) -> dict[str, Any]:
    """Read the arguments of a job by their model. Raises BadRequest that names each field."""
    try:
        return dict(model.model_validate(given))
    except ValidationError as error:
        raise _bad_request(error) from error


def encode_event(event: JobRequested) -> Message:
    """The event as a message. Raises BadRequest if JSON cannot carry it, RequestTooLarge over 1 MiB."""
    try:
        message = build_message(event)
    except PydanticSerializationError as error:
        raise BadRequest(
            f"expected arguments of {event.data.job_type} that JSON can carry, got: {error}"
        ) from error
    if len(message.body) > MAX_BODY:
        raise RequestTooLarge(event.data.job_type, len(message.body), MAX_BODY)
    return message


def with_reply_to(message: Message, reply_to: str) -> Message:
    """The same request with a reply address, as its repeat."""
    (found,) = decode(message.body, registry=_REQUESTS)
    assert isinstance(found, DecodedEvent), "an event that was encoded here"
    assert isinstance(found.event, JobRequested), "the message of a request"
    data = found.event.data.model_copy(update={"reply_to": reply_to})
    return build_message(found.event.model_copy(update={"data": data}))


class PrivateRequests:
    """Encrypts what a client sends, if it has a codec: arguments of job types that match one of `patterns`,
    and the data of signals."""

    def __init__(self, codec: payloads.PayloadCodec | None, patterns: Sequence[str]) -> None:
        self._codec, self._patterns = codec, patterns

    def spec(self, spec: JobSpec, job_id: UUID) -> JobSpec:
        """The request with encrypted arguments, if its job type is to have such. Raises BadRequest."""
        try:
            if isinstance(spec.arguments, Mapping):
                payloads.check_plain(spec.arguments)
            if (codec := self._codec_for(spec.job_type)) is None:
                return spec
            plain = to_jsonable_python(spec.arguments)
            return replace(spec, arguments=payloads.encrypt_arguments(codec, plain, job_id, spec.job_type))
        except ValueError as error:
            raise BadRequest(f"arguments of {spec.job_type}: {error}") from error

    def schedule(self, schedule: "SchedulePutData") -> "SchedulePutData":
        """The schedule with encrypted arguments, if its job type is to have such. Raises BadRequest."""
        try:
            payloads.check_plain(schedule.arguments)
            codec = self._codec_for(schedule.job_type)
            return schedule if codec is None else payloads.encrypt_schedule(codec, schedule)
        except ValueError as error:
            raise BadRequest(str(error)) from error

    def signal(self, data: Any, job_id: UUID, name: str) -> Any:
        """The data of a signal, encrypted for this job and this name, also if it is null."""
        if self._codec is None:
            return data
        return payloads.encrypt(self._codec, payloads.ValueKind.SIGNAL, to_json(data), job_id, name)

    def _codec_for(self, job_type: str) -> payloads.PayloadCodec | None:
        is_private = self._codec is not None and any(fnmatchcase(job_type, one) for one in self._patterns)
        return self._codec if is_private else None


def _fields(spec: JobSpec, reply_to: str | None) -> dict[str, Any]:
    arguments = spec.arguments
    named = {
        "job_type": spec.job_type,
        "arguments": arguments.model_dump(mode="json")
        if isinstance(arguments, BaseModel)
        else dict(arguments),
        "queue": spec.queue,
        "idempotency_key": spec.idempotency_key,
        "delay": spec.delay,
        "not_before": spec.not_before,
        "deadline": spec.deadline,
        "expires_after": spec.expires_after,
        "policy": spec.policy,
        "parent_id": spec.parent_id,
        "reply_to": reply_to,
    }
    return {name: value for name, value in named.items() if value is not None}


def _bad_request(error: ValidationError) -> BadRequest:
    problems = "; ".join(map(_problem, error.errors(include_url=False)[:_MAX_PROBLEMS]))
    return BadRequest(f"the request cannot be sent: {problems}")


def _problem(found: ErrorDetails) -> str:
    where = ".".join(str(part) for part in found["loc"]) or "request"
    problem = found["msg"].removeprefix("Value error, ")
    return (
        f"{where}: {problem}" if ", got " in problem else f"{where}: {problem}, got {found['input']!r:.100}"
    )


# Marks in a template for the values of each request; U+F8FF is a character that nobody uses.
_ID, _KEY = "\uf8ff the request's id", "\uf8ff the request's key"
_ARGUMENTS = {"\uf8ff the request's arguments": True}

# The fields that requests of one template share.
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

# As the model of a request writes them, except that NaN and infinity stay visible and do not become null.
_write: Callable[..., bytes] = TypeAdapter(
    dict[str, Any], config=ConfigDict(ser_json_inf_nan="constants")
).serializer.to_json


class _NeedsValidation(Exception):
    """Raised for a value that only full validation can accept or refuse."""


class _Template(NamedTuple):
    """An encoded request with gaps for its id, its arguments and its optional key."""

    message: Message
    before_id: bytes
    before_arguments: bytes
    before_key: bytes
    end: bytes


class BulkEncoder:
    """Encodes the requests of one batch, which share source, time and reply address.

    Requests with the same common fields differ in id, arguments and key alone. The first of them is validated
    as an event and becomes a template; the others fill its gaps, and only their own values are checked. A
    value that is not certainly valid goes through `build_event` and `encode_event`, so the result is the same
    as theirs; a test compares both.
    """

    def __init__(
        self, source: str, requested_at: datetime, reply_to: str | None, baggage: str | None = None
    ) -> None:
        self._source, self._requested_at, self._reply_to = source, requested_at, reply_to
        self._baggage = baggage
        # Typed, because 1 == True and only one of them may be valid. Positional, because that is faster.
        self._template_for = lru_cache(maxsize=64, typed=True)(self._build_template)

    def encode(self, spec: JobSpec, event_id: str, context: TraceContext) -> Message:
        """Encode one request. Raises BadRequest, RequestTooLarge."""
        try:
            message = self._fill_template(spec, event_id, context)
        # TypeError: common fields that cannot be hashed, so that no template can be cached.
        except (_NeedsValidation, BadRequest, TypeError, ValueError, PydanticSerializationError):
            return encode_event(self.build_event(spec, event_id, context))
        if len(message.body) > MAX_BODY:
            raise RequestTooLarge(spec.job_type, len(message.body), MAX_BODY)
        return message

    def build_event(self, spec: JobSpec, event_id: str, context: TraceContext) -> JobRequested:
        """Build the event. Raises BadRequest that names each field, the expected and the actual value."""
        if isinstance(spec.policy, Mapping) and (wrong := find_unknown_field(spec.policy)):
            raise BadRequest(f"the request cannot be sent: {wrong}")
        try:
            return JobRequested(
                id=event_id,
                source=self._source,
                time=self._requested_at,
                subject=str(spec.job_type),
                traceparent=context.traceparent,
                tracestate=context.tracestate,
                baggage=self._baggage,
                data=JobRequestedData.model_validate(_fields(spec, self._reply_to)),
            )
        except ValidationError as error:
            raise _bad_request(error) from error

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
        message = build_message(self.build_event(spec, _ID, context))
        before_id, rest = _split_once(message.body, to_json(_ID))
        before_arguments, rest = _split_once(rest, to_json(_ARGUMENTS))
        before_key, end = _split_once(rest, to_json(_KEY)) if has_key else (b"", rest)
        return _Template(message, before_id, before_arguments, before_key, end)


def _split_once(text: bytes, mark: bytes) -> tuple[bytes, bytes]:
    before, *after = text.split(mark)
    if len(after) != 1:  # the mark is used in the request itself
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
    # NaN, infinity and U+0000 need validation; half a surrogate pair is not encoded. As a key, NaN is text.
    if may_be_unsafe(text) or b'nan":' in text or b'inf":' in text:
        raise _NeedsValidation
    return text

"""Private values: arguments, results, checkpoints, journals, signals and errors for holders of a key alone.

An encrypted value is a JSON object in the place of the value:

    {"warrener:encrypted": {"key": "2026-11", "nonce": "…", "data": "…"}}

`data` is authenticated together with the kind of the value and its job, so that it counts in no other job,
and in no other place; arguments with their job type alone, since a redrive, an undo and a retried child copy
them into new jobs. Services without the key pass all of it on unread.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from uuid import UUID

from warrener_contracts.events.errors import ErrorInfo, ErrorKind
from warrener_contracts.json_safety import is_object
from warrener_contracts.templates import has_placeholders

if TYPE_CHECKING:
    from warrener_contracts.events import SchedulePutData

MARK: Final = "warrener:encrypted"
_SCHEDULE = "schedule"  # in `for`: arguments of a schedule, beside which its trigger may put plain ones

_MEMBERS = frozenset({"key", "nonce", "data"})
_TEXT_START = f'{{"{MARK}":'
_MAX_ERROR, _MAX_TEXT = 45_000, 10_000  # bytes of all texts, characters of one
_OWN_KINDS = frozenset({ErrorKind.TIMEOUT, ErrorKind.LOST, ErrorKind.NOT_STARTED})  # nothing of the handler
_RECORD_TEXTS = ("stacks", "log", "progress_note")


class ValueKind(StrEnum):
    """The place of a value: one kind is not accepted in the place of another."""

    ARGUMENTS = "arguments"
    RESULT = "result"
    CHECKPOINT = "checkpoint"
    JOURNAL = "journal"
    SIGNAL = "signal"
    ERROR = "error"


class PayloadUnreadable(Exception):
    """An encrypted value cannot be read: its key is missing, or it was made for another place. No repetition
    mends it."""


class PayloadCodec(Protocol):
    """Encrypts bytes under the current key, and decrypts those of each key that it has."""

    @property
    def key_id(self) -> str:
        """The key that encrypts."""
        ...

    def encrypt(self, plain: bytes, associated: bytes, place: bytes = b"") -> tuple[bytes, bytes]:
        """Return nonce and ciphertext: the same for the same input, so that a repeat is recognised. `place`
        makes them differ from those of the same text elsewhere; it is not needed to decrypt."""
        ...

    def decrypt(self, key_id: str, nonce: bytes, data: bytes, associated: bytes) -> bytes:
        """Raises KeyError for an unknown key, ValueError for what was not encrypted so."""
        ...

    def derive(self, key_id: str, purpose: str) -> bytes:
        """Derive a secret from a key. Raises KeyError for an unknown one."""
        ...


# -- what anybody may see ----------------------------------------------------------------------------------


def encrypted_key(value: object) -> str | None:
    """The id of the key of an encrypted value, or of the text of one; None for any other value."""
    if isinstance(value, str):
        value = _from_text(value)
    found = _envelope(value)
    return None if found is None else str(found.get("key", ""))[:100]


def shown(value: object) -> str | None:
    """The words that stand for an encrypted value where people look; None for any other value."""
    key = encrypted_key(value)
    return None if key is None else f"encrypted (key {key})"


def are_encrypted(arguments: Mapping[str, Any]) -> bool:
    """True for encrypted arguments with nothing plain in them or beside them."""
    found = _envelope(arguments)
    if found is None or len(arguments) > 1 or not _MEMBERS <= found.keys() <= _MEMBERS | {"for"}:
        return False
    return all(isinstance(one, str) for one in found.values())


def check_plain(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError for plain arguments that would pass for encrypted ones."""
    if MARK in arguments and not are_encrypted(arguments):
        raise ValueError(
            f"expected no argument named {MARK!r}, which marks encrypted ones, got one: rename it, or leave "
            "out what stands beside it"
        )


# -- for holders of keys -----------------------------------------------------------------------------------


def encrypt(
    codec: PayloadCodec, kind: ValueKind, plain: bytes, job_id: UUID, name: str = ""
) -> dict[str, Any]:
    """Encrypt JSON of a job. `name` binds it more closely: to a call, or to the name of a signal."""
    return {MARK: _encrypt(codec, plain, _associated(kind, str(job_id), name))}


def encrypt_arguments(
    codec: PayloadCodec, arguments: Mapping[str, Any], job_id: UUID, job_type: str
) -> dict[str, Any]:
    """Encrypt arguments, which are JSON; those that are encrypted stay as they are. Nothing shows that two
    jobs have equal ones. Raises ValueError for plain ones with the mark."""
    return _encrypt_arguments(codec, arguments, "", job_type, str(job_id))


def encrypt_schedule(codec: PayloadCodec, schedule: "SchedulePutData") -> "SchedulePutData":
    """Encrypt the arguments of a schedule. Raises ValueError for placeholders."""
    if has_placeholders(schedule.arguments):
        raise ValueError(
            f"{schedule.name}: expected encrypted arguments without placeholders, which the scheduler cannot "
            f"fill, got some: leave them out, or send arguments of {schedule.job_type} plain"
        )
    arguments = _encrypt_arguments(
        codec, schedule.arguments, _SCHEDULE, schedule.job_type, f"{_SCHEDULE} {schedule.name}"
    )
    return schedule.model_copy(update={"arguments": arguments})


def decrypt(
    codec: PayloadCodec | None,
    kind: ValueKind,
    value: Any,
    job_id: UUID,
    name: str = "",
    *,
    is_private: bool = False,
) -> Any:
    """Decrypt a value that is encrypted. Raises PayloadUnreadable, of a private one also if it is plain."""
    found = _envelope(value)
    if found is None and is_private:
        raise PayloadUnreadable(f"expected an encrypted {kind.value} of job {job_id}, got a plain one")
    return value if found is None else json.loads(_decrypt(codec, kind, found, str(job_id), name))


def decrypt_arguments(codec: PayloadCodec | None, arguments: dict[str, Any], job_type: str) -> dict[str, Any]:
    """Decrypt arguments, if they are encrypted. Plain ones may stand beside those of a schedule alone, whose
    trigger adds them. Raises PayloadUnreadable."""
    found = _envelope(arguments)
    if found is None:
        return arguments
    origin = _SCHEDULE if found.get("for") == _SCHEDULE else ""
    if not origin and len(arguments) > 1:
        others = ", ".join(name for name in arguments if name != MARK)
        raise PayloadUnreadable(f"expected encrypted arguments and no others beside them, got {others:.100}")
    plain = {name: value for name, value in arguments.items() if name != MARK}
    plain.update(json.loads(_decrypt(codec, ValueKind.ARGUMENTS, found, origin, job_type)))
    return plain


def encrypt_error(codec: PayloadCodec, error: ErrorInfo, job_id: UUID) -> ErrorInfo:
    """Hide the texts of an error of a handler; its class stays, by which retries are decided."""
    record, texts = error.flight_record, {"message": error.message, "stack": error.stack}
    if record is not None:
        texts |= {name: getattr(record, name) for name in _RECORD_TEXTS}
        record = record.model_copy(update=dict.fromkeys(_RECORD_TEXTS))
    limit = _MAX_TEXT
    while len(plain := _write_texts(texts, limit)) > _MAX_ERROR:
        limit //= 2
    hidden = encrypt(codec, ValueKind.ERROR, plain, job_id)
    message = error.message if error.kind in _OWN_KINDS else f"encrypted (key {codec.key_id})"
    changes = {"message": message, "stack": json.dumps(hidden), "flight_record": record}
    return error.model_copy(update=changes)


def decrypt_error(codec: PayloadCodec | None, error: ErrorInfo | None, job_id: UUID) -> ErrorInfo | None:
    """The error with its texts, if they are encrypted. Raises PayloadUnreadable."""
    if error is None or (hidden := _from_text(error.stack or "")) is None:
        return error
    texts = decrypt(codec, ValueKind.ERROR, hidden, job_id)
    record = {name: texts.pop(name) for name in _RECORD_TEXTS if name in texts}
    if error.flight_record is not None:
        texts["flight_record"] = error.flight_record.model_copy(update=record)
    return error.model_copy(update={"stack": None, **texts})


# -- the form ----------------------------------------------------------------------------------------------


def _associated(kind: ValueKind, origin: str, name: str) -> bytes:
    return f"warrener/1\n{kind.value}\n{origin}\n{name}".encode()


def _envelope(value: object) -> dict[str, Any] | None:
    found = value.get(MARK) if is_object(value) else None
    return found if is_object(found) else None


def _from_text(text: str) -> dict[str, Any] | None:
    if not text.startswith(_TEXT_START):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if _envelope(found) is not None else None


def _encrypt_arguments(
    codec: PayloadCodec, arguments: Mapping[str, Any], origin: str, job_type: str, place: str
) -> dict[str, Any]:
    if MARK in arguments:
        check_plain(arguments)
        return dict(arguments)
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), allow_nan=False)
    associated = _associated(ValueKind.ARGUMENTS, origin, job_type)
    found = _encrypt(codec, text.encode(), associated, place.encode())
    return {MARK: found | ({"for": origin} if origin else {})}


def _encrypt(codec: PayloadCodec, plain: bytes, associated: bytes, place: bytes = b"") -> dict[str, str]:
    nonce, data = codec.encrypt(plain, associated, place)
    return {"key": codec.key_id, "nonce": b64encode(nonce).decode(), "data": b64encode(data).decode()}


def _decrypt(
    codec: PayloadCodec | None, kind: ValueKind, found: dict[str, Any], origin: str, name: str
) -> bytes:
    key, what = str(found.get("key"))[:100], f"encrypted {kind.value} of {origin or name}"
    why = "got no such key: add it to the file that WARRENER_ENCRYPTION_KEYS_FILE names"
    if codec is not None:
        try:
            nonce, data = b64decode(str(found.get("nonce"))), b64decode(str(found.get("data")))
            return codec.decrypt(key, nonce, data, _associated(kind, origin, name))
        except ValueError:
            why = "got others: they were changed or moved, or the key has another value here"
        except KeyError:
            pass
    raise PayloadUnreadable(f"expected {what} by the key {key!r}, {why}")


def _write_texts(texts: Mapping[str, str | None], limit: int) -> bytes:
    """Write texts as JSON: the beginning of a message, and the ends of the others."""
    cut = {name: text[:limit] if name == "message" else text[-limit:] for name, text in texts.items() if text}
    return json.dumps(cut, ensure_ascii=False).encode("utf-8", "replace")

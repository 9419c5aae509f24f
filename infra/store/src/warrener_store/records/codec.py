"""How a database driver takes identifiers and moments: as they are (PostgreSQL), or as text (SQLite)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from warrener_store.encoding import decode, encode, escape, unescape


@dataclass(frozen=True, slots=True)
class ColumnCodec:
    """The form of identifiers and moments in one database, where None stays None, and of one condition."""

    encode_id: Callable[[UUID | None], Any]
    decode_id: Callable[[Any], Any]
    encode_moment: Callable[[datetime | None], Any]
    decode_moment: Callable[[Any], Any]
    one_of: Callable[[str, str], str]
    """That a column is one of what a statement gives, in the words by which the column's index is used."""


def _as_it_is(value: Any) -> Any:
    return value


def _id_text(value: UUID | None) -> str | None:
    return None if value is None else str(value)


def _id(value: str | None) -> UUID | None:
    return None if value is None else UUID(value)


def _moment_text(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    # 27 characters always, so that the order of the texts is the order of the moments. Twice as fast as
    # isoformat, which asks the time zone.
    text = to_json(moment.astimezone(UTC)).decode()
    return text[1:-1] if len(text) == _FULL else f"{text[1:20]}.000000Z"


_FULL = len('"2026-01-01T00:00:00.000001Z"')


def _moment(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


POSTGRES_CODEC = ColumnCodec(
    encode_id=_as_it_is,
    decode_id=_as_it_is,
    encode_moment=_as_it_is,
    decode_moment=_as_it_is,
    one_of="{} = ANY (ARRAY({}))".format,
)
"""asyncpg takes and gives UUID and datetime."""

SQLITE_CODEC = ColumnCodec(
    encode_id=_id_text,
    decode_id=_id,
    encode_moment=_moment_text,
    decode_moment=_moment,
    one_of="{} IN ({})".format,
)
"""SQLite knows neither."""


def encode_text(text: str | None) -> str | None:
    """A text that may hold anything, as a column keeps it."""
    return None if text is None else escape(text)


def decode_text(text: str | None) -> str | None:
    """What `encode_text` was given."""
    return None if text is None else unescape(text)


def encode_document(document: Any) -> str | None:
    """A JSON document as a column keeps it; null is NULL."""
    return None if document is None else encode(document)


def decode_document(text: str | None) -> Any:
    """What `encode_document` was given."""
    return None if text is None else decode(text)


def encode_texts(texts: tuple[str, ...]) -> str:
    """Several texts as one JSON array. Escaped first, so that SQL may take the array apart."""
    return encode([escape(text) for text in texts])


def decode_texts(array: str) -> tuple[str, ...]:
    """What `encode_texts` was given."""
    return tuple(unescape(text) for text in decode(array))

"""How a database driver takes identifiers and moments: as they are (PostgreSQL), or as text (SQLite)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from warrener_store.encoding import decode, encode, escape, unescape


@dataclass(frozen=True, slots=True)
class Form:
    """The form of identifiers and moments in one database, where None stays None, and of one condition."""

    id_out: Callable[[UUID | None], Any]
    id_in: Callable[[Any], Any]
    moment_out: Callable[[datetime | None], Any]
    moment_in: Callable[[Any], Any]
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


NATIVE = Form(
    id_out=_as_it_is,
    id_in=_as_it_is,
    moment_out=_as_it_is,
    moment_in=_as_it_is,
    one_of="{} = ANY (ARRAY({}))".format,
)
"""asyncpg takes and gives UUID and datetime."""

TEXTUAL = Form(
    id_out=_id_text, id_in=_id, moment_out=_moment_text, moment_in=_moment, one_of="{} IN ({})".format
)
"""SQLite knows neither."""


def text_out(text: str | None) -> str | None:
    """A text that may hold anything, as a column keeps it."""
    return None if text is None else escape(text)


def text_in(text: str | None) -> str | None:
    """What `text_out` was given."""
    return None if text is None else unescape(text)


def document_out(document: Any) -> str | None:
    """A JSON document as a column keeps it; null is NULL."""
    return None if document is None else encode(document)


def document_in(text: str | None) -> Any:
    """What `document_out` was given."""
    return None if text is None else decode(text)


def texts_out(texts: tuple[str, ...]) -> str:
    """Several texts as one JSON array. Escaped first, so that SQL may take the array apart."""
    return encode([escape(text) for text in texts])


def texts_in(array: str) -> tuple[str, ...]:
    """What `texts_out` was given."""
    return tuple(unescape(text) for text in decode(array))

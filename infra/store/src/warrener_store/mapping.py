"""The mapping of frozen dataclasses to database columns, and of single values to their stored form.

Identifiers and moments depend on the driver (`ColumnCodec`); texts, documents and policies are stored alike
everywhere. `RowMapper` derives the columns of a row type from its fields.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType, UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_json

from warrener_contracts.events import ErrorInfo
from warrener_contracts.policy import JobPolicy
from warrener_store.batches import compact_columns
from warrener_store.encoding import decode, encode, escape, unescape

R = TypeVar("R")
Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ColumnCodec:
    """The stored form of identifiers and moments in one database (None stays None), and of one condition."""

    encode_id: Callable[[UUID | None], Any]
    decode_id: Callable[[Any], Any]
    encode_moment: Callable[[datetime | None], Any]
    decode_moment: Callable[[Any], Any]
    one_of: Callable[[str, str], str]
    """The condition that a column is one of the values of a subquery, in the form that uses its index."""


def _identity(value: Any) -> Any:
    return value


def _id_to_text(value: UUID | None) -> str | None:
    return None if value is None else str(value)


def _id_from_text(value: str | None) -> UUID | None:
    return None if value is None else UUID(value)


def _moment_to_text(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    # Always 27 characters, so that texts sort as moments do. Twice as fast as isoformat, which calls the
    # time zone.
    text = to_json(moment.astimezone(UTC)).decode()
    return text[1:-1] if len(text) == _FULL else f"{text[1:20]}.000000Z"


_FULL = len('"2026-01-01T00:00:00.000001Z"')


def _moment_from_text(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


POSTGRES_CODEC = ColumnCodec(
    encode_id=_identity,
    decode_id=_identity,
    encode_moment=_identity,
    decode_moment=_identity,
    one_of="{} = ANY (ARRAY({}))".format,
)
"""asyncpg takes and gives UUID and datetime."""

SQLITE_CODEC = ColumnCodec(
    encode_id=_id_to_text,
    decode_id=_id_from_text,
    encode_moment=_moment_to_text,
    decode_moment=_moment_from_text,
    one_of="{} IN ({})".format,
)
"""SQLite has neither type: both are text."""


def encode_text(text: str | None) -> str | None:
    """Escape a text that may hold any character."""
    return None if text is None else escape(text)


def decode_text(text: str | None) -> str | None:
    """Reverse `encode_text`."""
    return None if text is None else unescape(text)


def encode_document(document: Any) -> str | None:
    """Write a JSON document as text; None becomes NULL."""
    return None if document is None else encode(document)


def decode_document(text: str | None) -> Any:
    """Reverse `encode_document`."""
    return None if text is None else decode(text)


def encode_texts(texts: tuple[str, ...]) -> str:
    """Write several texts as one JSON array. Each is escaped first, so that SQL may take the array apart."""
    return encode([escape(text) for text in texts])


def decode_texts(array: str) -> tuple[str, ...]:
    """Reverse `encode_texts`."""
    return tuple(unescape(text) for text in decode(array))


def encode_policy(policy: JobPolicy) -> str:
    """Write a policy as JSON."""
    return policy.model_dump_json()


@lru_cache(maxsize=1024)
def decode_policy(text: str) -> JobPolicy:
    """Reverse `encode_policy`. Policies are frozen and few: thousands of jobs share one."""
    return JobPolicy.model_validate_json(text)


def encode_error(error: ErrorInfo | None) -> str | None:
    """Write an error as JSON."""
    return None if error is None else error.model_dump_json()


def decode_error(text: str | None) -> ErrorInfo | None:
    """Reverse `encode_error`."""
    return None if text is None else ErrorInfo.model_validate_json(text)


class ColumnKind(NamedTuple):
    """The two conversions of one column. Neither is called with None."""

    encode: Convert
    decode: Convert


class SqlColumn(NamedTuple):
    """A column as PostgreSQL declares it."""

    name: str
    sql_type: str
    nullable: bool


class RowMapper(Generic[R]):
    """Converts rows of one dataclass or named tuple to the values of its columns, and back.

    The columns are the fields, in order, or those of `names`, which may be one text; `kinds` gives a column
    another conversion than the one that follows from the field's type.
    """

    def __init__(
        self,
        row_type: type[R],
        names: Sequence[str] | str = (),
        *,
        kinds: Mapping[str, ColumnKind] = MappingProxyType({}),
    ) -> None:
        hints = get_type_hints(row_type)
        self._row_type: Callable[..., R] = row_type
        self.columns = tuple(names.split() if isinstance(names, str) else names) or tuple(hints)
        self._optional = frozenset(name for name in self.columns if _is_optional(hints[name]))
        self.sql_columns = tuple(
            SqlColumn(name, _SQL_TYPES.get(_without_none(hints[name]), "text"), name in self._optional)
            for name in self.columns
        )
        self._get: Callable[[R], tuple[Any, ...]] = attrgetter(*self.columns)
        self._postgres, self._sqlite = (
            [kinds.get(name) or _kind_of(hints[name], codec) for name in self.columns]
            for codec in (POSTGRES_CODEC, SQLITE_CODEC)
        )

        # Most columns need no conversion; those that do not are left out here.
        self._decoders = [
            [
                (name, kind.decode)
                for name, kind in zip(self.columns, kinds_of, strict=True)
                if kind.decode is not _identity
            ]
            for kinds_of in (self._sqlite, self._postgres)
        ]

    def to_row(self, row: R, codec: ColumnCodec) -> tuple[Any, ...]:
        """The values of `columns`."""
        kinds = self._postgres if codec is POSTGRES_CODEC else self._sqlite
        pairs = zip(kinds, self._get(row), strict=True)
        return tuple(None if value is None else kind.encode(value) for kind, value in pairs)

    def to_arrays(self, rows: Iterable[R]) -> list[list[Any]]:
        """The values of `columns` as PostgreSQL takes a batch; one column must never be NULL."""
        return compact_columns(len(self.columns), (self.to_row(row, POSTGRES_CODEC) for row in rows))

    def from_row(self, values: Sequence[Any], codec: ColumnCodec) -> R:
        """The row whose `columns` have these values; more values behind them are ignored.

        NULL in a field that cannot be None is that field's default.
        """
        fields: dict[str, Any] = dict(zip(self.columns, values, strict=False))
        for name, convert in self._decoders[codec is POSTGRES_CODEC]:
            if (value := fields[name]) is not None:
                fields[name] = convert(value)
        if None in fields.values():
            fields = {
                name: value for name, value in fields.items() if value is not None or name in self._optional
            }
        return self._row_type(**fields)


_PLAIN = ColumnKind(_identity, _identity)


def _to_duration(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


_KINDS: Mapping[Any, ColumnKind] = MappingProxyType(
    {
        str: ColumnKind(escape, unescape),
        bool: ColumnKind(_identity, bool),
        int: _PLAIN,
        float: _PLAIN,
        bytes: _PLAIN,
        timedelta: ColumnKind(timedelta.total_seconds, _to_duration),
        JobPolicy: ColumnKind(encode_policy, decode_policy),
        tuple[str, ...]: ColumnKind(encode_texts, decode_texts),
    }
)
_DOCUMENT = ColumnKind(encode, decode)


def _is_optional(hint: Any) -> bool:
    return hint is Any or type(None) in get_args(hint)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return hint


def _kind_of(hint: Any, codec: ColumnCodec) -> ColumnKind:
    """The conversions of a field of this type; a type without one of its own is a JSON document."""
    hint = _without_none(hint)
    if hint is UUID:
        return ColumnKind(codec.encode_id, codec.decode_id)
    if hint is datetime:
        return ColumnKind(codec.encode_moment, codec.decode_moment)
    if hint in _KINDS:
        return _KINDS[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ColumnKind(attrgetter("value"), hint)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return ColumnKind(hint.model_dump_json, hint.model_validate_json)
    return _DOCUMENT


_SQL_TYPES: Mapping[Any, str] = MappingProxyType(
    {UUID: "uuid", datetime: "timestamptz", int: "integer", float: "double precision"}
)
"""All other columns hold texts."""


def fields_of_type(row_type: Any, wanted: type) -> tuple[str, ...]:
    """The fields that hold a value of this type, or None."""
    hints = get_type_hints(row_type)
    return tuple(name for name, hint in hints.items() if _without_none(hint) is wanted)


def qualify(table: str, columns: Sequence[str]) -> str:
    """The columns of a table, as a SELECT lists them."""
    return ", ".join(f"{table}.{column}" for column in columns)

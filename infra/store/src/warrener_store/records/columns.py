"""Jobs column by column: the values of each field of a batch of rows, as a database keeps them.

In most columns all rows of a batch hold the same value: that is converted once.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from warrener_contracts.policy import JobPolicy
from warrener_store.arrays import all_equal
from warrener_store.encoding import encode, is_plain
from warrener_store.records.codec import ColumnCodec, encode_document, encode_text, encode_texts
from warrener_store.records.jobs import IDS, MOMENTS, TEXTS
from warrener_store.records.policies import encode_error, encode_policy
from warrener_store.rows import JobRow

Values = Sequence[Any]


def encode_columns(names: tuple[str, ...], rows: Sequence[JobRow], codec: ColumnCodec) -> list[list[Any]]:
    """The values of each of these columns, in the order of `rows`; no columns where there is no row."""
    columns = zip(*map(_fields(names), rows), strict=True)
    return [_column(name, values, codec) for name, values in zip(names, columns, strict=bool(rows))]


@cache
def _fields(names: tuple[str, ...]) -> Callable[[JobRow], tuple[Any, ...]]:
    return attrgetter(*names)


def _column(name: str, values: Values, codec: ColumnCodec) -> list[Any]:
    if name in IDS:
        return [codec.encode_id(value) for value in values]
    if name in MOMENTS:
        return _converted(values, codec.encode_moment)
    convert = _OTHERS.get(name)
    return list(values) if convert is None else convert(values)


def _converted(values: Values, convert: Callable[[Any], Any]) -> list[Any]:
    """Each value converted, or the one that all of them are. Not for documents: 1 equals True and 1.0."""
    if all_equal(values):
        return [convert(values[0])] * len(values)
    return [convert(value) for value in values]


def _texts(values: Values) -> list[Any]:
    """Texts, or None. Looked through together: what has to be escaped is rare."""
    if is_plain("".join(filter(None, values))):
        return list(values)
    return [encode_text(text) for text in values]


def _names(values: Values) -> list[Any]:
    """The values of an enumeration."""
    return _converted(values, lambda member: member.value)


def _policies(values: Sequence[JobPolicy]) -> list[str]:
    """Nearly all are the very object that their job type has; to compare them takes longer than to write."""
    written: dict[int, str] = {}
    for policy in values:
        if id(policy) not in written:
            written[id(policy)] = encode_policy(policy)
    return [written[id(policy)] for policy in values]


def _watchers(values: Sequence[tuple[str, ...]]) -> list[str]:
    return _converted(values, encode_texts)


def _arguments(values: Values) -> list[str]:
    return [encode(document) for document in values]


def _documents(values: Values) -> list[str | None]:
    return [encode_document(document) for document in values]


def _errors(values: Values) -> list[str | None]:
    return [encode_error(error) for error in values]


_OTHERS: dict[str, Callable[[Any], list[Any]]] = {
    "arguments": _arguments,
    "guarantee": _names,
    "state": _names,
    "policy": _policies,
    "watchers": _watchers,
    "result": _documents,
    "error": _errors,
} | dict.fromkeys(TEXTS, _texts)
"""How a column is converted; numbers stay as they are."""

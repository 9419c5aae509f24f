"""Jobs as they are inserted: the values of each column in a list of its own.

A batch is one statement, and in most columns all its jobs hold the same value: that is converted once.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from warrener_contracts.policy import JobPolicy
from warrener_store.arrays import short
from warrener_store.encoding import encode, plain
from warrener_store.records.form import NATIVE, Form, document_out, text_out, texts_out
from warrener_store.records.jobs import IDS, JOB_COLUMNS, MOMENTS, TEXTS
from warrener_store.records.policies import error_out, policy_out
from warrener_store.rows import JobRow

Values = Sequence[Any]


def columns_out(rows: Sequence[JobRow], form: Form) -> list[list[Any]]:
    """The values of each of JOB_COLUMNS, in the order of `rows`; no columns where there is no row."""
    columns = zip(*map(_FIELDS, rows), strict=True)
    return [_column(name, values, form) for name, values in zip(JOB_COLUMNS, columns, strict=bool(rows))]


def arrays_out(rows: Sequence[JobRow]) -> list[list[Any]]:
    """The columns as PostgreSQL's `insert_jobs` takes them, each as short as it may be."""
    return list(map(_short, JOB_COLUMNS, columns_out(rows, NATIVE)))


_FIELDS = attrgetter(*JOB_COLUMNS)


def _column(name: str, values: Values, form: Form) -> list[Any]:
    if name in IDS:
        return [form.id_out(value) for value in values]
    if name in MOMENTS:
        return _converted(values, form.moment_out)
    convert = _OTHERS.get(name)
    return list(values) if convert is None else convert(values)


def _converted(values: Values, convert: Callable[[Any], Any]) -> list[Any]:
    """Each value converted, or the one that all of them are. Not for documents: 1 equals True and 1.0."""
    first = values[0]
    if values.count(first) == len(values):
        return [convert(first)] * len(values)
    return [convert(value) for value in values]


def _texts(values: Values) -> list[Any]:
    """Texts, or None. Looked through together: what has to be escaped is rare."""
    if plain("".join(filter(None, values))):
        return list(values)
    return [text_out(text) for text in values]


def _names(values: Values) -> list[Any]:
    """The values of an enumeration."""
    return _converted(values, lambda member: member.value)


def _policies(values: Sequence[JobPolicy]) -> list[str]:
    """Nearly all are the very object that their job type has; to compare them takes longer than to write."""
    written: dict[int, str] = {}
    for policy in values:
        if id(policy) not in written:
            written[id(policy)] = policy_out(policy)
    return [written[id(policy)] for policy in values]


def _watchers(values: Sequence[tuple[str, ...]]) -> list[str]:
    return _converted(values, texts_out)


def _arguments(values: Values) -> list[str]:
    return [encode(document) for document in values]


def _documents(values: Values) -> list[str | None]:
    return [document_out(document) for document in values]


def _errors(values: Values) -> list[str | None]:
    return [error_out(error) for error in values]


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

_MOSTLY_ONE = frozenset(
    {
        "job_type",
        "queue",
        "guarantee",
        "policy",
        "source",
        "accepted_at",
        "version",
        "state",
        "attempt",
        "failures",
        "losses",
        "watchers",
        "wake_at",
        "dispatched_at",
        "updated_at",
    }
)
"""Columns of a new job that hold one value in nearly every batch; `insert_jobs.sql` takes it once."""


def _short(name: str, column: list[Any]) -> list[Any]:
    """A column as short as the statement takes it: one value for all, or none where it is NULL.

    The driver asks each value of an array what it is, which takes it longer than to write the value.
    """
    if name in _MOSTLY_ONE and column.count(column[0]) == len(column):
        return column[:1]
    return short(column)

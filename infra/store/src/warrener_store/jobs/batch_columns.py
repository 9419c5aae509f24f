"""Batches of jobs column by column, as the statements of both databases take them.

In most columns all rows of a batch hold the same value: it is converted once."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from warrener_contracts.policy import JobPolicy
from warrener_store import mapping
from warrener_store.batches import all_equal, compact_nulls, compact_repeats
from warrener_store.encoding import encode, is_plain
from warrener_store.jobs.batches import JobSaves
from warrener_store.jobs.columns import IDS, JOB_COLUMNS, MOMENTS, MOSTLY_ONE, TEXTS
from warrener_store.jobs.rows import STATE_FIELDS, JobRow
from warrener_store.jobs.views import Success

Values = Sequence[Any]


def encode_columns(
    names: tuple[str, ...], rows: Sequence[JobRow], codec: mapping.ColumnCodec
) -> list[list[Any]]:
    """The values of each of these columns, in the order of `rows`; no columns where there is no row."""
    columns = zip(*map(_fields(names), rows), strict=True)
    return [_column(name, values, codec) for name, values in zip(names, columns, strict=bool(rows))]


@cache
def _fields(names: tuple[str, ...]) -> Callable[[JobRow], tuple[Any, ...]]:
    return attrgetter(*("stored_key" if name == "idempotency_key" else name for name in names))


def _column(name: str, values: Values, codec: mapping.ColumnCodec) -> list[Any]:
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
    """Texts, or None. They are checked together, as few need escapes."""
    if is_plain("".join(filter(None, values))):
        return list(values)
    return [mapping.encode_text(text) for text in values]


def _names(values: Values) -> list[Any]:
    """The values of an enumeration, or None."""
    return _converted(values, lambda member: None if member is None else member.value)


def _policies(values: Sequence[JobPolicy]) -> list[str]:
    """Nearly all are the object of their job type; comparing them takes longer than writing them."""
    written: dict[int, str] = {}
    for policy in values:
        if id(policy) not in written:
            written[id(policy)] = mapping.encode_policy(policy)
    return [written[id(policy)] for policy in values]


def _watchers(values: Sequence[tuple[str, ...]]) -> list[str]:
    return _converted(values, mapping.encode_texts)


def _arguments(values: Values) -> list[str]:
    return [encode(document) for document in values]


def _documents(values: Values) -> list[str | None]:
    return [mapping.encode_document(document) for document in values]


def _errors(values: Values) -> list[str | None]:
    return [mapping.encode_error(error) for error in values]


_OTHERS: dict[str, Callable[[Any], list[Any]]] = {
    "arguments": _arguments,
    "guarantee": _names,
    "state": _names,
    "ending": _names,
    "policy": _policies,
    "watchers": _watchers,
    "result": _documents,
    "error": _errors,
} | dict.fromkeys(TEXTS, _texts)
"""The conversion of each column; numbers stay as they are."""


def jobs_to_columns(rows: Sequence[JobRow], codec: mapping.ColumnCodec) -> list[list[Any]]:
    """The values of each of JOB_COLUMNS, in the order of `rows`; no columns where there is no row."""
    return encode_columns(JOB_COLUMNS, rows, codec)


def jobs_to_arrays(rows: Sequence[JobRow]) -> list[list[Any]]:
    """The columns as PostgreSQL's `insert_jobs` takes them, each as short as it may be."""
    return list(map(_compact_column, JOB_COLUMNS, jobs_to_columns(rows, mapping.POSTGRES_CODEC)))


def _compact_column(name: str, column: list[Any]) -> list[Any]:
    """A column as short as the statement takes it: one value for all, or none where it is NULL."""
    if name in MOSTLY_ONE and all_equal(column):
        return column[:1]
    return compact_nulls(column)


def _saved_columns(batch: Sequence[JobSaves], codec: mapping.ColumnCodec) -> list[list[Any]]:
    """The columns of STATE_FIELDS, and when the attempts ran that their jobs' rows hold."""
    inlined = [job_saves.inlined_attempt for job_saves in batch]
    began = [None if attempt is None else attempt.started_at for attempt in inlined]
    ended = [None if attempt is None else attempt.finished_at for attempt in inlined]
    return [
        *encode_columns(STATE_FIELDS, [job_saves.row for job_saves in batch], codec),
        *(_converted(moments, codec.encode_moment) for moments in (began, ended)),
    ]


def saves_to_arrays(batch: Sequence[JobSaves]) -> list[list[Any]]:
    """The parameters of PostgreSQL's `save_jobs`: the ids, the stored versions and the columns to write. All
    columns but the ids are as short as they may be."""
    versions = [job_saves.base_version for job_saves in batch]
    columns = versions, *_saved_columns(batch, mapping.POSTGRES_CODEC)
    return [[job_saves.row.job_id for job_saves in batch], *map(compact_repeats, columns)]


def saves_to_rows(batch: Sequence[JobSaves]) -> Iterable[tuple[Any, ...]]:
    """The parameters of SQLite's `save_job`: the columns to write, and the id."""
    ids = [str(job_saves.row.job_id) for job_saves in batch]
    return zip(*_saved_columns(batch, mapping.SQLITE_CODEC), ids, strict=True) if batch else ()


_NUMBER = attrgetter("job_id.int")  # locking in one order prevents deadlocks


def successes_to_arrays(successes: Iterable[Success]) -> list[list[Any]]:
    """The parameters of PostgreSQL's `succeed_jobs`: all columns but the ids as short as they may be."""
    ordered = sorted(successes, key=_NUMBER)
    ids, attempts, agents, results, *others = zip(*ordered, strict=True)
    columns = [
        list(attempts),
        [mapping.encode_text(agent) for agent in agents],
        [mapping.encode_document(result) for result in results],
        *map(list, others),
    ]
    return [list(ids), *map(compact_repeats, columns)]


def successes_to_rows(successes: Iterable[Success], now: datetime) -> Iterable[tuple[Any, ...]]:
    """The parameters of SQLite's `succeed_job`."""
    moment = mapping.SQLITE_CODEC.encode_moment
    for success in successes:
        yield (
            mapping.encode_text(success.agent_id),
            mapping.encode_document(success.result),
            moment(success.started_at),
            moment(success.finished_at),
            moment(now),
            str(success.job_id),
        )

"""The lists of columns and parameters in the statements that write jobs.

They follow from the fields of the rows, so a column is declared once, in its row. PostgreSQL takes one array
for each column (`batches.py`), SQLite one value. The words in braces of `postgres.sql` and `sqlite.sql` stand
for these texts.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from warrener_store.dead_letters.columns import NEW_DEAD_LETTERS
from warrener_store.jobs.columns import ATTEMPTS, JOB_COLUMNS, MOSTLY_ONE
from warrener_store.jobs.rows import STATE_FIELDS, JobRow
from warrener_store.jobs.unique import UniqueKeyRow
from warrener_store.mapping import RowMapper, SqlColumn

_NEW = RowMapper(JobRow, JOB_COLUMNS).sql_columns
_UNIQUE_KEY = (
    *RowMapper(UniqueKeyRow).sql_columns,
    SqlColumn("waiting", "uuid", nullable=True),
    SqlColumn("reason", "text", nullable=True),
)
_KEY = (SqlColumn("job_id", "uuid", nullable=False), SqlColumn("held", "integer", nullable=False))
_STATE = (
    *RowMapper(JobRow, STATE_FIELDS).sql_columns,
    SqlColumn("run_started_at", "timestamptz", nullable=True),
    SqlColumn("run_finished_at", "timestamptz", nullable=True),
)


def _postgres_words() -> dict[str, str]:
    new = _arrays(_NEW)
    saved = _arrays((*_KEY, *_STATE))
    before_dead_letters = len(saved) + len(ATTEMPTS.columns)
    values = (
        _spread(column, new[column.name], column.name) if column.name in MOSTLY_ONE else column.name
        for column in _NEW
    )
    changes = (
        f"{column.name} = {_spread(column, saved[column.name], f'batch.{column.name}')}" for column in _STATE
    )
    return {
        "{new_columns}": _names(_NEW),
        "{new_values}": ", ".join(values),
        "{new_arrays}": ", ".join(new.values()),
        "{new_holders}": f"${len(_NEW) + 1}::uuid[]",
        "{unique_columns}": _names(_UNIQUE_KEY),
        "{unique_arrays}": ", ".join(_arrays(_UNIQUE_KEY, behind=len(_NEW) + 1).values()),
        "{unique_at}": f"${len(_NEW) + len(_UNIQUE_KEY) + 2}::timestamptz",
        "{saved_columns}": _names((*_KEY, *_STATE)),
        "{saved_changes}": ", ".join(changes),
        "{saved_arrays}": ", ".join(saved.values()),
        "{saved.held}": saved["held"],
        "{saved.finished_at}": saved["finished_at"],
        "{saved.ending}": saved["ending"],
        "{attempt_columns}": _names(ATTEMPTS.sql_columns),
        "{attempt_arrays}": ", ".join(_arrays(ATTEMPTS.sql_columns, behind=len(saved)).values()),
        "{dead_letter_columns}": _names(NEW_DEAD_LETTERS.sql_columns),
        "{dead_letter_arrays}": ", ".join(
            _arrays(NEW_DEAD_LETTERS.sql_columns, behind=before_dead_letters).values()
        ),
    }


def _sqlite_words() -> dict[str, str]:
    new = {column.name: f"?{number}" for number, column in enumerate(_NEW, 1)}
    saved = {column.name: f"?{number}" for number, column in enumerate(_STATE, 1)}
    return {
        "{new_columns}": _names(_NEW),
        "{new_values}": ", ".join(new.values()),
        "{new.deadline_at}": new["deadline_at"],
        "{new.finished_at}": new["finished_at"],
        "{saved_changes}": ", ".join(f"{name} = {place}" for name, place in saved.items()),
        "{saved.finished_at}": saved["finished_at"],
        "{saved.ending}": saved["ending"],
        "{saved.job_id}": f"?{len(saved) + 1}",
        "{attempt_columns}": _names(ATTEMPTS.sql_columns),
        "{attempt_values}": ", ".join("?" * len(ATTEMPTS.columns)),
        "{dead_letter_columns}": _names(NEW_DEAD_LETTERS.sql_columns),
        "{dead_letter_values}": ", ".join("?" * len(NEW_DEAD_LETTERS.columns)),
    }


def _names(columns: Sequence[SqlColumn]) -> str:
    return ", ".join(column.name for column in columns)


def _arrays(columns: Sequence[SqlColumn], behind: int = 0) -> dict[str, str]:
    """The array of each column; `behind` is the number of parameters before the first."""
    return {
        column.name: f"${number}::{column.sql_type}[]" for number, column in enumerate(columns, behind + 1)
    }


def _spread(column: SqlColumn, array: str, value: str) -> str:
    """The value in a row, from an array that holds one value if all rows have the same.

    `unnest` fills the array up with NULL; where a row may hold NULL too, the array's size decides.
    """
    if column.nullable:
        return f"CASE cardinality({array}) WHEN 1 THEN ({array})[1] ELSE {value} END"
    return f"coalesce({value}, ({array})[1])"


JOB_WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"postgres": _postgres_words(), "sqlite": _sqlite_words()}
)
"""The words in braces of the jobs' statements, for each database."""

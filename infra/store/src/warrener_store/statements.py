"""The SQL statements by name. Each aggregate's folder has its own, with the reason in a comment above each.

`statements.sql` is for both databases, in PostgreSQL's words; SQLite's follow from them (`_for_sqlite`). A
statement that PostgreSQL runs once for a batch and SQLite once for each row stands in `postgres.sql` and
`sqlite.sql`. An index that SQLite's planner must use stands in a comment, for it alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from operator import itemgetter
from types import MappingProxyType
from typing import Any

FOLDERS = (
    "agents audit breakers dead_letters gates incidents jobs logs parked retention schedules sessions "
    "statistics workflows"
)
"""The aggregates; the package itself has a `statements.sql` too."""
_HOMES: Mapping[str, str] = MappingProxyType(
    {
        word: module
        for module, words in (
            ("agents.store", "agent job_type"),
            ("audit.store", "audit_record"),
            ("breakers.store", "breaker"),
            ("dead_letters.columns", "redrive dead_letter"),
            ("gates.store", "slot gate_waiter"),
            ("incidents.columns", "incident policy_version over"),
            ("jobs.columns", "job succeeded of_end unique_key"),
            ("jobs.rules", "in_flight open_states is_undo job_is_undo is_detached"),
            ("logs.store", "log_chunk"),
            ("retention.prunable_tables", "prunable"),
            ("schedules.columns", "schedule schedule_columns tick tick_columns watch claimed arrival newest"),
            ("sessions.store", "session"),
            ("statistics.store", "series_bucket cause_bucket deploy agent_version"),
            ("workflows.store", "turn signal held_signal"),
        )
        for word in words.split()
    }
)
"""The module whose `WORDS` say what a word in braces stands for, such as the columns of a row, in order.
Other words are those of the statements that write jobs, or name a part that statements share."""


def _meaning(found: re.Match[str], dialect: str) -> str:
    if (home := _HOMES.get(found[1])) is not None:
        words = import_module(f"warrener_store.{home}").WORDS
        return _expand(words[found[1]], dialect)
    if (part := _load("statements").get(found[1])) is not None:
        return _expand(part, dialect)
    from warrener_store.jobs.parameters import JOB_WORDS  # noqa: PLC0415 - a program that only reads needs none

    return JOB_WORDS[dialect][found[0]]


def _expand(text: str, dialect: str) -> str:
    """Replace the words in braces; such a text may have words too."""
    return _WORD.sub(lambda found: _meaning(found, dialect), text)


_WORD = re.compile(r"\{([\w.]+)\}")


class Parameters:
    """The parameters of a statement that is put together, in order."""

    def __init__(self, *values: Any) -> None:
        self.values = list(values)

    def bind(self, value: Any) -> str:
        """Add a value; return its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}"


@cache
def statement(dialect: str, name: str) -> str:
    """The text of a statement for "postgres" or "sqlite"."""
    own = _load(dialect).get(name)
    text = own or _expand_batch(_load("statements")[name], dialect)
    text = _expand(text, dialect)
    return text if own or dialect == "postgres" else _for_sqlite(text)


@cache
def _load(file: str) -> dict[str, str]:
    """All statements of the files of this name; raises ValueError if two have the same name."""
    found: dict[str, str] = {}
    package = files("warrener_store")
    for folder in (package, *(package / name for name in FOLDERS.split())):
        source = folder / f"{file}.sql"
        _, *parts = _NAMED.split(source.read_text(encoding="utf-8")) if source.is_file() else ("",)
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"expected one statement {name} in {file}.sql, got two; rename one")
            found[name] = _COMMENT.sub("", text).strip()
    return found


_NAMED = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--.*\n?", re.MULTILINE)  # it may name parameters, which `positional` counts


def _expand_batch(text: str, dialect: str) -> str:
    """Replace `{batch id uuid, name text} AS given`, the rows of a batch as a table: arrays in PostgreSQL,
    one row at a time in SQLite."""

    def table(found: re.Match[str]) -> str:
        columns = [column.split(maxsplit=1) for column in found[1].split(",")]
        if dialect == "sqlite":
            values = (f"${number} AS {name}" for number, (name, _) in enumerate(columns, 1))
            return f"(SELECT {', '.join(values)}) AS {found[2]}"
        arrays = (f"${number}::{kind.strip()}[]" for number, (_, kind) in enumerate(columns, 1))
        return f"unnest({', '.join(arrays)}) AS {found[2]} ({', '.join(name for name, _ in columns)})"

    return _BATCH.sub(table, text)


_BATCH = re.compile(r"\{batch ([^}]+)\} AS (\w+)")


def _for_sqlite(text: str) -> str:
    """Translate a statement from PostgreSQL's words: arrays are JSON texts, and there are no casts."""
    for pattern, replacement in _SQLITE_WORDS:
        text = pattern.sub(replacement, text)
    return text


_SQLITE_WORDS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\((\$\d+)::\w+\[\]\)\[1\]", r"\1"),  # what the rows of a batch share
        (r"= ANY ?\((\$\d+)::\w+\[\]\)", r"IN (SELECT value FROM json_each(\1))"),
        (r"::(?:double precision|\w+)(?:\[\])?", ""),
        (r"/\* (INDEXED BY \w+) \*/", r"\1"),
        (r"\bstrpos\(", "instr("),
        (r"\bgreatest\(", "max("),
        (r"\bleast\(", "min("),
        (r"\boctet_length\(([\w.]+)\)", r"length(CAST(\1 AS BLOB))"),  # its own is younger than some versions
        (r"\w+\.xmin\b", "NULL"),  # one writer at a time needs no version of a row
    )
]


@dataclass(frozen=True, slots=True)
class Positional:
    """A statement with its parameters in the order of use, as SQLite's driver for Python takes them.

    Some versions of it (3.12.0 to 3.12.3) take `?1` for a name and warn, so no numbers are left in the text.
    """

    text: str
    arrange: Callable[[Sequence[Any]], Sequence[Any]]
    """From the parameters by number to those by place."""


def positional(text: str) -> Positional:
    """The statement with `?` for `$1`, `?1` and the like; one without numbers has its parameters in place."""
    order = [int(number) - 1 for number in _NUMBERED.findall(text)]
    in_place = order == list(range(len(order)))
    return Positional(_NUMBERED.sub("?", text), _identity if in_place else itemgetter(*order))


_NUMBERED = re.compile(r"[$?](\d+)")


def _identity(parameters: Sequence[Any]) -> Sequence[Any]:
    return parameters

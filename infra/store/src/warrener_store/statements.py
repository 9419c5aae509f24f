"""The SQL statements by name. Each aggregate's folder has its own, with the reason in a comment above each.

`statements.sql` is for both databases, in PostgreSQL's words; SQLite's follow from them (`_for_sqlite`). A
statement that PostgreSQL runs once for a batch and SQLite once for each row, or that needs a planner's hint,
stands in `postgres.sql` and `sqlite.sql`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any

from warrener_store.agents.store import AGENTS, JOB_TYPES
from warrener_store.audit.store import AUDIT_RECORDS
from warrener_store.breakers.store import BREAKERS
from warrener_store.dead_letters.columns import REDRIVE_COLUMNS
from warrener_store.incidents.columns import INCIDENTS, POLICY_VERSIONS
from warrener_store.incidents.rows import ALL_STEPS_DONE
from warrener_store.jobs.columns import JOB, SUCCEEDED_COLUMNS
from warrener_store.jobs.parameters import JOB_WORDS
from warrener_store.jobs.rules import IN_FLIGHT
from warrener_store.logs.store import LOG_CHUNKS
from warrener_store.mapping import qualify
from warrener_store.schedules.columns import ARRIVALS, SCHEDULE_COLUMNS, TICKS, WATCHES
from warrener_store.schedules.rows import MAX_RUNS_EXAMINED
from warrener_store.sessions.store import SESSIONS
from warrener_store.statistics.sql import AGENT_VERSIONS, CAUSE_BUCKETS, DEPLOYS, SERIES_BUCKETS

FOLDERS = (
    "agents",
    "audit",
    "breakers",
    "dead_letters",
    "incidents",
    "jobs",
    "logs",
    "parked",
    "retention",
    "schedules",
    "sessions",
    "statistics",
)
"""The aggregates; the package itself has a `statements.sql` too."""
_PRUNABLE = """job.finished_at < $1
    AND (job.idempotency_key IS NULL OR job.accepted_at < $2)
    AND NOT EXISTS (SELECT 1 FROM warrener_jobs AS child WHERE child.parent_id = job.job_id LIMIT 1 OFFSET 0)
    AND NOT EXISTS (
      SELECT 1 FROM warrener_jobs AS parent
      WHERE parent.job_id = job.parent_id AND parent.finished_at IS NULL
      LIMIT 1 OFFSET 0
    )
    AND NOT EXISTS (
      SELECT 1 FROM warrener_dead_letters AS redriven
      WHERE redriven.redriven_as = job.job_id AND redriven.state = 'redriven'
      LIMIT 1 OFFSET 0
    )
    AND NOT EXISTS (
      SELECT 1 FROM warrener_dead_letters AS own
      WHERE own.job_id = job.job_id AND (own.state IN ('claimed', 'redriven') OR EXISTS (
        SELECT 1 FROM warrener_incidents AS incident
        JOIN warrener_incident_occurrences AS named ON named.fingerprint = incident.fingerprint
        WHERE incident.fingerprint = own.fingerprint AND incident.closed_at IS NULL
          AND named.occurrence = CAST(own.job_id AS text) AND named.steps_done < {over}
        LIMIT 1 OFFSET 0
      ))
      LIMIT 1 OFFSET 0
    )"""
"""The condition that a job may be deleted: it ended before $1, and was accepted before $2 if it has a key.
OFFSET 0 makes PostgreSQL look references up job by job, by an index, rather than read a whole table."""

_MACROS: Mapping[str, str] = {
    "{prunable}": _PRUNABLE,
    "{job}": JOB,
    "{in_flight}": ", ".join(f"'{state.value}'" for state in IN_FLIGHT),
    "{succeeded}": qualify("job", SUCCEEDED_COLUMNS),
    "{agent}": ", ".join(AGENTS.columns),
    "{job_type}": ", ".join(JOB_TYPES.columns),
    "{log_chunk}": ", ".join(LOG_CHUNKS.columns),
    "{audit_record}": ", ".join(AUDIT_RECORDS.columns),
    "{session}": ", ".join(SESSIONS.columns),
    "{breaker}": ", ".join(BREAKERS.columns),
    "{redrive}": qualify("redrive", REDRIVE_COLUMNS),
    "{incident}": qualify("incidents", INCIDENTS.columns),
    "{policy_version}": ", ".join(POLICY_VERSIONS.columns),
    "{schedule}": qualify("schedule", SCHEDULE_COLUMNS),
    "{tick}": qualify("tick", TICKS.columns),
    "{watch}": qualify("watch", WATCHES.columns),
    "{claimed}": qualify("claimed", WATCHES.columns),
    "{arrival}": qualify("arrival", ARRIVALS.columns),
    "{series_bucket}": ", ".join(SERIES_BUCKETS.columns),
    "{cause_bucket}": ", ".join(CAUSE_BUCKETS.columns),
    "{deploy}": ", ".join(DEPLOYS.columns),
    "{agent_version}": ", ".join(AGENT_VERSIONS.columns),
    "{over}": str(ALL_STEPS_DONE),
    "{newest}": str(MAX_RUNS_EXAMINED),
}
"""The words in braces of a statement: the columns of a row, in order; which jobs are over, or in flight.
`JOB_WORDS` has those of the statements that write jobs."""


@cache
def statement(dialect: str, name: str) -> str:
    """The text of a statement for "postgres" or "sqlite"."""
    own = _load(dialect).get(name)
    text = own or _expand_batch(_load("statements")[name], dialect)
    for word, meaning in (*_MACROS.items(), *JOB_WORDS[dialect].items()):
        text = text.replace(word, meaning)
    return text if own or dialect == "postgres" else _for_sqlite(text)


@cache
def _load(file: str) -> dict[str, str]:
    """All statements of the files of this name; raises ValueError if two have the same name."""
    found: dict[str, str] = {}
    package = files("warrener_store")
    for folder in (package, *(package / name for name in FOLDERS)):
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
        (r"= ANY ?\((\$\d+)::\w+\[\]\)", r"IN (SELECT value FROM json_each(\1))"),
        (r"::(?:double precision|\w+)(?:\[\])?", ""),
        (r"\bstrpos\(", "instr("),
        (r"\bgreatest\(", "max("),
        (r"\bleast\(", "min("),
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

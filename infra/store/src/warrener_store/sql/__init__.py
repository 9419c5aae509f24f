"""The statements: one file each, named for the verb, with the reason in a comment.

`postgres/` hands over a batch as arrays, one for each column; `sqlite/` runs a statement for each row of a
batch inside one transaction; `both/` asks what both understand alike.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from operator import itemgetter
from typing import Any

from warrener_store.escalations import ALL_STEPS_DONE
from warrener_store.records.cases import CASE_COLUMNS
from warrener_store.records.jobs import JOB_COLUMNS
from warrener_store.records.successes import IN_FLIGHT, SUCCEEDED_COLUMNS
from warrener_store.schedules.records import SCHEDULE_COLUMNS, TICK_COLUMNS
from warrener_store.schedules.watch_records import WATCH_COLUMNS
from warrener_store.schedules.watches import MAX_RUNS_EXAMINED
from warrener_store.triggers.records import ARRIVAL_COLUMNS


def _columns(table: str, names: Sequence[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


JOB = _columns("job", JOB_COLUMNS)

_PRUNABLE = """job.finished_at < $1
    AND (job.idempotency_key IS NULL OR job.accepted_at < $2)
    AND NOT EXISTS (SELECT 1 FROM warrener_jobs AS child WHERE child.parent_id = job.job_id LIMIT 1 OFFSET 0)
    AND NOT EXISTS (
      SELECT 1 FROM warrener_jobs AS parent
      WHERE parent.job_id = job.parent_id AND parent.finished_at IS NULL
      LIMIT 1 OFFSET 0
    )
    AND NOT EXISTS (
      SELECT 1 FROM warrener_dead_letters AS asked
      WHERE asked.redriven_as = job.job_id AND asked.state = 'asked'
      LIMIT 1 OFFSET 0
    )
    AND NOT EXISTS (
      SELECT 1 FROM warrener_dead_letters AS own
      WHERE own.job_id = job.job_id AND (own.state IN ('taken', 'asked') OR EXISTS (
        SELECT 1 FROM warrener_cases AS incident
        JOIN warrener_case_entries AS named ON named.fingerprint = incident.fingerprint
        WHERE incident.fingerprint = own.fingerprint AND incident.closed_at IS NULL
          AND named.occurrence = CAST(own.job_id AS text) AND named.done < {over}
        LIMIT 1 OFFSET 0
      ))
      LIMIT 1 OFFSET 0
    )"""
"""That a job which ended before $1, and was accepted before $2 if it has a key, may go. OFFSET 0: references
are looked up job by job, by an index; PostgreSQL would else read a whole table and make one list of it."""

_MEANT = {
    "{prunable}": _PRUNABLE,
    "{job}": JOB,
    "{in_flight}": ", ".join(f"'{state.value}'" for state in IN_FLIGHT),
    "{succeeded}": _columns("job", SUCCEEDED_COLUMNS),
    "{case}": _columns("cases", CASE_COLUMNS),
    "{schedule}": _columns("schedule", SCHEDULE_COLUMNS),
    "{tick}": _columns("tick", TICK_COLUMNS),
    "{watch}": _columns("watch", WATCH_COLUMNS),
    "{claimed}": _columns("claimed", WATCH_COLUMNS),
    "{arrival}": _columns("arrival", ARRIVAL_COLUMNS),
    "{over}": str(ALL_STEPS_DONE),
    "{newest}": str(MAX_RUNS_EXAMINED),
}
"""What words in braces stand for in a statement: the columns of a row, in order; which jobs are over,
and which are in flight."""


def statement(dialect: str, name: str) -> str:
    """The text of a statement, of the dialect's own or of both."""
    folder = files(__name__)
    own = folder / dialect / f"{name}.sql"
    text = (own if own.is_file() else folder / "both" / f"{name}.sql").read_text(encoding="utf-8")
    for word, meant in _MEANT.items():
        text = text.replace(word, meant)
    return text


@dataclass(frozen=True, slots=True)
class Positional:
    """A statement whose parameters stand where they are used, as SQLite's driver for Python wants them.

    Some versions of it (3.12.0 to 3.12.3) take `?1` for a name and warn, so no numbers are left in the text.
    """

    text: str
    arrange: Callable[[Sequence[Any]], Sequence[Any]]
    """From the parameters by number to those by place."""


def positional(text: str) -> Positional:
    """The statement with `?` for `$1`, `?1` and the like; one without numbers has its parameters in place."""
    order = [int(number) - 1 for number in _NUMBERED.findall(text)]
    in_place = order == list(range(len(order)))
    return Positional(_NUMBERED.sub("?", text), _as_they_are if in_place else itemgetter(*order))


_NUMBERED = re.compile(r"[$?](\d+)")


def _as_they_are(parameters: Sequence[Any]) -> Sequence[Any]:
    return parameters

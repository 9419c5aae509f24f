"""The history of the tables, and the revision that this version of the code needs.

Each step is a file of SQL, named `NNNN_pre_….sql` (safe while the code before it still runs) or
`NNNN_post_….sql` (run once that code is gone); where the databases differ in more than words, it is two
files, `….postgres.sql` and `….sqlite.sql`. No step is taken back: the code before a `pre` step runs on its
tables. `schemas/` holds the schema that each step leaves behind: a step with a schema there is released and
never edited; a change is a step of its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from warrener_store.databases.failures import MIGRATE
from warrener_store.errors import StoreNotMigrated

HISTORY = files("warrener_store") / "migrations"
NEEDED = max(step.name[:4] for step in HISTORY.iterdir() if "_pre_" in step.name)
"""The revision that this code relies on: the newest step named `pre`. A database that is ahead is accepted:
steps named `pre` are safe under the code before them, those named `post` are taken when that code is gone."""

VERSION_TABLE = "warrener_schema"
_MAX_SHOWN = 5
_SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "postgres": {
        "id": "uuid",
        "moment": "timestamp with time zone",
        "fraction": "double precision",
        "bytes": "bytea",
        "serial": "serial",
        "strpos": "strpos",
    },
    "sqlite": {
        "id": "char(36)",
        "moment": "char(27)",  # fixed-width UTC text sorts as time does
        "fraction": "double",
        "bytes": "blob",
        "serial": "integer",
        "strpos": "instr",
    },
}
"""The meanings of words in braces of the steps, by dialect."""
_WORD = re.compile(r"\{(\w+)\}")


def read_steps(dialect: str) -> dict[str, str]:
    """The steps of the history by revision, in order, as scripts for "postgres" or "sqlite"."""
    file_name = re.compile(rf"(\d{{4}})_\w+(\.{dialect})?\.sql")
    steps: dict[str, str] = {}
    for file in sorted(HISTORY.iterdir(), key=lambda file: file.name):
        if found := file_name.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            steps[found[1]] = _WORD.sub(lambda word: _SPELLINGS[dialect][word[1]], text)
    return steps


def check_version(found: Sequence[str], where: object) -> str:
    """The revision of a database. Raises StoreNotMigrated unless it is the needed one, or a later one."""
    if not found or max(found) < NEEDED:
        has = max(found, default="nothing")
        raise StoreNotMigrated(f"expected revision {NEEDED} of the tables in {where}, got {has}; {MIGRATE}")
    return max(found)


def check_columns(found: Mapping[str, str], dialect: str, revision: str, where: object) -> None:
    """Raise StoreNotMigrated unless the columns, by `table.column`, are those that the revision left behind.

    Columns of a revision that this code does not know are not compared.
    """
    expected = released_columns(dialect, revision)
    if problems := list(_differences(expected, found)) if expected else []:
        shown = ", ".join(problems[:_MAX_SHOWN])
        more = f" and {len(problems) - _MAX_SHOWN} more" if len(problems) > _MAX_SHOWN else ""
        raise StoreNotMigrated(
            f"expected the columns of revision {revision} in {where}, got {shown}{more}: an unreleased"
            " version made these tables; alter them by hand, or migrate an empty database"
        )


def released_columns(dialect: str, revision: str) -> Mapping[str, str]:
    """The columns after a step, by `table.column`; nothing for an unknown step."""
    snapshot = HISTORY / "schemas" / f"{revision}.{dialect}.txt"
    lines = snapshot.read_text(encoding="utf-8").splitlines() if snapshot.is_file() else []
    columns = (line.split(" ", 2) for line in lines if line.startswith("column "))
    return {name: definition for _, name, definition in columns}


def _differences(expected: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    """Describe columns that are missing or defined otherwise, and foreign ones that refuse our rows."""
    for name, definition in expected.items():
        if (has := found.get(name)) is None:
            yield f"no {name} ({definition})"
        elif has != definition:
            yield f"{name} as {has!r}, not {definition!r}"
    tables = {name.partition(".")[0] for name in expected}
    for name in sorted(found.keys() - expected.keys()):
        definition = found[name]
        if name.partition(".")[0] in tables and " not null" in definition and " default " not in definition:
            yield f"an unknown {name} ({definition})"

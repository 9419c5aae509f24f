"""The statements: one file each, named for the verb, with the reason in a comment.

`postgres/` hands over a batch as arrays, one for each column; `sqlite/` runs a statement for each row of a
batch inside one transaction; `both/` asks what both understand alike.
"""

import re
from importlib.resources import files

from warrener_store.records.jobs import JOB_COLUMNS

JOB = ", ".join(f"job.{column}" for column in JOB_COLUMNS)
"""What `{job}` stands for in a statement: the columns of a JobRow, in order."""


def statement(dialect: str, name: str) -> str:
    """The text of a statement, of the dialect's own or of both."""
    folder = files(__name__)
    own = folder / dialect / f"{name}.sql"
    text = (own if own.is_file() else folder / "both" / f"{name}.sql").read_text(encoding="utf-8")
    text = text.replace("{job}", JOB)
    return numbered(text) if dialect == "sqlite" else text


def numbered(text: str) -> str:
    """PostgreSQL's `$1` as SQLite writes it: `?1`."""
    return re.sub(r"\$(\d+)", r"?\1", text)

"""Columns and indexes as version 1.0 has them, for both databases.

Written out, not taken from the metadata: a step never changes once it is released.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")
FRACTION: sa.Double[float] = sa.Double()
GUARANTEES = "guarantee IN ('idempotent', 'transactional', 'exclusive')"


def text_column(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def moment_column(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, MOMENT, nullable=nullable)


def job_column() -> sa.Column[Any]:
    return sa.Column(
        "job_id", ID, sa.ForeignKey("warrener_jobs.job_id", ondelete="CASCADE"), primary_key=True
    )


def create_index(
    name: str, table: str, *columns: str, where: str = "", sqlite_where: str = "", unique: bool = False
) -> None:
    conditions: dict[str, Any] = {
        f"{dialect}_where": sa.text(text)
        for dialect, text in (("postgresql", where), ("sqlite", sqlite_where or where))
        if text
    }
    op.create_index(name, table, list(columns), unique=unique, **conditions)

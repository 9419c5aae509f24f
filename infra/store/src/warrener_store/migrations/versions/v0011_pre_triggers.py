"""What schedules wait for, and what of it has happened. Safe under the code before: it has neither."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0009"

_ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "warrener_triggers",
        sa.Column("schedule", sa.Text(), primary_key=True),
        sa.Column("bindings", sa.Text(), nullable=False),
    )
    op.create_table(
        "warrener_arrivals",
        sa.Column("schedule", sa.Text(), primary_key=True),
        sa.Column("event_id", _ID, primary_key=True),
        _moment("told_at", nullable=False),
        _moment("heard_at", nullable=False),
        sa.Column("upstream", sa.Text(), nullable=False),
        _moment("nominal_at"),
        sa.Column("event", sa.Text()),
    )
    _index("open", "schedule", "told_at", "event_id", where="event IS NOT NULL")
    _index("over", "heard_at", where="event IS NULL")


def downgrade() -> None:
    for table in ("arrivals", "triggers"):
        op.drop_table(f"warrener_{table}")


def _index(name: str, *columns: str, where: str) -> None:
    condition = sa.text(where)
    op.create_index(
        f"warrener_arrivals_{name}",
        "warrener_arrivals",
        list(columns),
        postgresql_where=condition,
        sqlite_where=condition,
    )


def _moment(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, _MOMENT, nullable=nullable)

"""What schedules wait for, and what of it has happened. Safe under the code before: it has neither."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_WAITS = """({0}(asked, '"rule":{{"kind":"event"') > 0 OR {0}(asked, '"rule":{{"kind":"after"') > 0)"""
_ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")


def upgrade() -> None:
    op.create_index(
        "warrener_schedules_waiting",
        "warrener_schedules",
        ["name"],
        postgresql_where=sa.text(_WAITS.format("strpos")),
        sqlite_where=sa.text(_WAITS.format("instr")),
    )
    op.create_table(
        "warrener_bound",
        sa.Column("exchange", sa.Text(), primary_key=True),
        sa.Column("key", sa.Text(), primary_key=True),
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
    condition = sa.text("event IS NOT NULL")
    op.create_index(
        "warrener_arrivals_open",
        "warrener_arrivals",
        ["schedule", "told_at", "event_id"],
        postgresql_where=condition,
        sqlite_where=condition,
    )
    op.create_index("warrener_arrivals_heard", "warrener_arrivals", ["heard_at"])


def downgrade() -> None:
    for table in ("arrivals", "bound"):
        op.drop_table(f"warrener_{table}")
    op.drop_index("warrener_schedules_waiting", "warrener_schedules")


def _moment(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, _MOMENT, nullable=nullable)

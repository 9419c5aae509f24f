"""Schedules and the ledger of their ticks. Safe under the code before: it has neither."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")
_FATES = "fate IN ('fired', 'caught_up', 'coalesced', 'skipped', 'waiting', 'triggered')"


def upgrade() -> None:
    op.create_table(
        "warrener_schedules",
        sa.Column("name", sa.Text(), primary_key=True),
        _text("asked"),
        _moment("put_at", nullable=False),
        _text("zone_version"),
        sa.Column("paused", sa.Boolean(), nullable=False),
        _moment("next_at"),
        _moment("wake_at"),
        _moment("last_at"),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("last_job_id", _ID),
        _moment("last_fired_at"),
        sa.CheckConstraint("runs >= 0 AND waiting >= 0", name="runs_not_negative"),
    )
    _index("warrener_schedules_due", "warrener_schedules", "wake_at", "name", where="wake_at IS NOT NULL")
    op.create_table(
        "warrener_ticks",
        sa.Column("schedule", sa.Text(), primary_key=True),
        sa.Column("nominal_at", _MOMENT, primary_key=True),
        _text("fate"),
        _moment("due_at", nullable=False),
        _moment("decided_at", nullable=False),
        _text("reason"),
        sa.Column("job_id", _ID),
        _moment("fired_at"),
        _moment("wake_at"),
        _text("request", nullable=True),
        sa.CheckConstraint(_FATES, name="fate_known"),
        sa.CheckConstraint("(request IS NULL) = (wake_at IS NULL)", name="request_until_fired"),
    )
    _index("warrener_ticks_unpublished", "warrener_ticks", "wake_at", where="wake_at IS NOT NULL")
    _index("warrener_ticks_waiting", "warrener_ticks", "schedule", "nominal_at", where="fate = 'waiting'")


def downgrade() -> None:
    for table in ("ticks", "schedules"):
        op.drop_table(f"warrener_{table}")


def _index(name: str, table: str, *columns: str, where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, list(columns), postgresql_where=condition, sqlite_where=condition)


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _moment(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, _MOMENT, nullable=nullable)

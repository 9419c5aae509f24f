"""Cases of the escalation and their entries. Safe under the code before: it knows nothing of them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "warrener_cases",
        sa.Column("fingerprint", sa.Text(), primary_key=True),
        _text("kind"),
        _text("subject"),
        _text("job_type", nullable=True),
        _text("sample"),
        _count("times"),
        _moment("first_seen_at", nullable=False),
        _moment("last_seen_at", nullable=False),
        _count("round"),
        _count("step"),
        _moment("due_at"),
        _count("tries"),
        _text("delivered"),
        _text("trouble", nullable=True),
        _moment("wake_at"),
        _text("claimed_by", nullable=True),
        _moment("claimed_until"),
        _text("acknowledged_by", nullable=True),
        _moment("acknowledged_at"),
        _moment("snoozed_until"),
        _moment("closed_at"),
        _text("closed_why", nullable=True),
        sa.CheckConstraint(
            "times >= 1 AND round >= 1 AND step >= 0 AND tries >= 0", name="case_counts_not_negative"
        ),
        sa.CheckConstraint("closed_at IS NULL OR wake_at IS NULL", name="closed_case_sleeps"),
    )
    op.create_index(
        "warrener_cases_due",
        "warrener_cases",
        ["wake_at", "fingerprint"],
        postgresql_where=sa.text("wake_at IS NOT NULL"),
        sqlite_where=sa.text("wake_at IS NOT NULL"),
    )
    op.create_index("warrener_cases_newest", "warrener_cases", ["last_seen_at", "fingerprint"])
    op.create_table(
        "warrener_case_entries",
        sa.Column("fingerprint", sa.Text(), primary_key=True),
        sa.Column("occurrence", sa.Text(), primary_key=True),
        _text("subject"),
        _moment("raised_at", nullable=False),
        _count("done"),
        sa.CheckConstraint("done >= 0", name="done_not_negative"),
    )
    op.create_index(
        "warrener_case_entries_pending", "warrener_case_entries", ["fingerprint", "done", "raised_at"]
    )


def downgrade() -> None:
    op.drop_table("warrener_case_entries")
    op.drop_table("warrener_cases")


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _count(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _moment(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, _MOMENT, nullable=nullable)

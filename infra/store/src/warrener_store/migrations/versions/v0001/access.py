"""The audit log and the sessions of the console."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import CheckConstraint as Rule

from warrener_store.migrations.versions.v0001.columns import ID, create_index, moment_column, text_column

TABLES = (
    "audit",
    "sessions",
)
"""In the order in which they are created."""


def create_tables() -> None:
    op.create_table(
        "warrener_audit",
        sa.Column("record_id", ID, primary_key=True),
        moment_column("recorded_at", nullable=False),
        text_column("actor"),
        text_column("role"),
        text_column("method"),
        text_column("address"),
        text_column("action"),
        text_column("subject"),
        text_column("reason"),
        text_column("outcome"),
        text_column("sentence"),
        moment_column("completed_at"),
        Rule(
            "outcome IN ('requested', 'accepted', 'refused', 'forbidden', 'failed')",
            name="audit_outcome_known",
        ),
        Rule("(outcome = 'requested') = (completed_at IS NULL)", name="audit_end_known_iff_completed"),
    )
    create_index("warrener_audit_newest", "warrener_audit", "recorded_at", "record_id")
    for column in ("actor", "action", "subject"):
        create_index(f"warrener_audit_{column}", "warrener_audit", column, "recorded_at", "record_id")
    op.create_table(
        "warrener_sessions",
        sa.Column("session_key", sa.Text(), primary_key=True),
        text_column("actor"),
        text_column("role"),
        text_column("method"),
        text_column("credential"),
        moment_column("opened_at", nullable=False),
        moment_column("expires_at", nullable=False),
    )
    create_index("warrener_sessions_expiry", "warrener_sessions", "expires_at")

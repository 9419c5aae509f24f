"""Incidents, their occurrences and the policies of escalation."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import CheckConstraint as Rule

from warrener_store.migrations.versions.v0001.columns import create_index, moment_column, text_column

TABLES = (
    "incidents",
    "incident_occurrences",
    "escalation_policies",
)
"""In the order in which they are created."""


def create_tables() -> None:
    op.create_table(
        "warrener_incidents",
        sa.Column("fingerprint", sa.Text(), primary_key=True),
        text_column("kind"),
        text_column("subject"),
        text_column("job_type", nullable=True),
        text_column("sample"),
        sa.Column("times", sa.Integer(), nullable=False),
        moment_column("first_seen_at", nullable=False),
        moment_column("last_seen_at", nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        text_column("policy_version", nullable=True),
        text_column("policy_history", nullable=True),
        sa.Column("step", sa.Integer(), nullable=False),
        moment_column("due_at"),
        sa.Column("failed_tries", sa.Integer(), nullable=False),
        text_column("delivered"),
        text_column("last_error", nullable=True),
        moment_column("wake_at"),
        text_column("claimed_by", nullable=True),
        moment_column("claimed_until"),
        text_column("acknowledged_by", nullable=True),
        moment_column("acknowledged_at"),
        moment_column("snoozed_until"),
        moment_column("closed_at"),
        text_column("close_reason", nullable=True),
        Rule(
            "times >= 1 AND round >= 1 AND step >= 0 AND failed_tries >= 0",
            name="incident_counts_not_negative",
        ),
        Rule("closed_at IS NULL OR wake_at IS NULL", name="closed_incident_sleeps"),
    )
    create_index(
        "warrener_incidents_due", "warrener_incidents", "wake_at", "fingerprint", where="wake_at IS NOT NULL"
    )
    create_index("warrener_incidents_newest", "warrener_incidents", "last_seen_at", "fingerprint")
    create_index(
        "warrener_incidents_open",
        "warrener_incidents",
        "last_seen_at",
        "fingerprint",
        where="closed_at IS NULL",
    )
    op.create_table(
        "warrener_incident_occurrences",
        sa.Column("fingerprint", sa.Text(), primary_key=True),
        sa.Column("occurrence", sa.Text(), primary_key=True),
        text_column("subject"),
        moment_column("raised_at", nullable=False),
        sa.Column("steps_done", sa.Integer(), nullable=False),
        Rule("steps_done >= 0", name="steps_done_not_negative"),
    )
    create_index(
        "warrener_incident_occurrences_pending",
        "warrener_incident_occurrences",
        "fingerprint",
        "steps_done",
        "raised_at",
    )
    create_index("warrener_incident_occurrences_raised", "warrener_incident_occurrences", "raised_at")
    op.create_table(
        "warrener_escalation_policies",
        sa.Column("version", sa.Text(), primary_key=True),
        text_column("name"),
        text_column("definition"),
        moment_column("first_seen_at", nullable=False),
        moment_column("last_seen_at", nullable=False),
    )

"""Schedules, ticks, declarations, watches, triggers and arrivals."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import CheckConstraint as Rule

from warrener_store.migrations.versions.v0001.columns import (
    FRACTION,
    ID,
    MOMENT,
    create_index,
    moment_column,
    text_column,
)

TABLES = (
    "schedules",
    "ticks",
    "schedule_declarations",
    "schedule_watches",
    "trigger_bindings",
    "arrivals",
)
"""In the order in which they are created."""


def create_tables() -> None:
    op.create_table(
        "warrener_schedules",
        sa.Column("name", sa.Text(), primary_key=True),
        text_column("definition"),
        moment_column("put_at", nullable=False),
        text_column("zone_version"),
        sa.Column("paused", sa.Boolean(), nullable=False),
        moment_column("next_at"),
        moment_column("wake_at"),
        moment_column("last_nominal_at"),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("last_job_id", ID),
        moment_column("last_fired_at"),
        sa.Column("pause_reason", sa.Text(), nullable=False, server_default=""),
        Rule("runs >= 0 AND waiting >= 0", name="runs_not_negative"),
    )
    create_index(
        "warrener_schedules_due", "warrener_schedules", "wake_at", "name", where="wake_at IS NOT NULL"
    )
    create_index(
        "warrener_schedules_waiting",
        "warrener_schedules",
        "name",
        where=(
            '(strpos(definition, \'"rule":{"kind":"event"\') > 0 '
            'OR strpos(definition, \'"rule":{"kind":"after"\') > 0)'
        ),
        sqlite_where=(
            '(instr(definition, \'"rule":{"kind":"event"\') > 0 '
            'OR instr(definition, \'"rule":{"kind":"after"\') > 0)'
        ),
    )
    op.create_table(
        "warrener_ticks",
        sa.Column("schedule", sa.Text(), primary_key=True),
        sa.Column("nominal_at", MOMENT, primary_key=True),
        text_column("status"),
        moment_column("due_at", nullable=False),
        moment_column("decided_at", nullable=False),
        text_column("reason"),
        sa.Column("job_id", ID),
        moment_column("fired_at"),
        moment_column("wake_at"),
        text_column("request", nullable=True),
        Rule(
            "status IN ('fired', 'caught_up', 'coalesced', 'skipped', 'waiting', 'triggered')",
            name="status_known",
        ),
        Rule("(request IS NULL) = (wake_at IS NULL)", name="request_until_fired"),
    )
    create_index("warrener_ticks_unpublished", "warrener_ticks", "wake_at", where="wake_at IS NOT NULL")
    create_index(
        "warrener_ticks_waiting", "warrener_ticks", "schedule", "nominal_at", where="status = 'waiting'"
    )
    op.create_table(
        "warrener_schedule_declarations",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("definition_hash", sa.Text(), primary_key=True),
        text_column("job_type"),
        text_column("declared_by"),
        moment_column("declared_at", nullable=False),
    )
    op.create_table(
        "warrener_schedule_watches",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("pause_after", sa.Integer()),
        sa.Column("success_within", FRACTION),
        moment_column("since", nullable=False),
        moment_column("check_at", nullable=False),
        moment_column("last_success_tick"),
        moment_column("last_success_at"),
        Rule("pause_after IS NOT NULL OR success_within IS NOT NULL", name="something_expected"),
    )
    create_index("warrener_schedule_watches_due", "warrener_schedule_watches", "check_at", "name")
    op.create_table(
        "warrener_trigger_bindings",
        sa.Column("exchange", sa.Text(), primary_key=True),
        sa.Column("key", sa.Text(), primary_key=True),
    )
    op.create_table(
        "warrener_arrivals",
        sa.Column("schedule", sa.Text(), primary_key=True),
        sa.Column("event_id", ID, primary_key=True),
        moment_column("occurred_at", nullable=False),
        moment_column("received_at", nullable=False),
        text_column("upstream"),
        moment_column("nominal_at"),
        text_column("event", nullable=True),
    )
    create_index("warrener_arrivals_received", "warrener_arrivals", "received_at")
    create_index(
        "warrener_arrivals_open",
        "warrener_arrivals",
        "schedule",
        "occurred_at",
        "event_id",
        where="event IS NOT NULL",
    )

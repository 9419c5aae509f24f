"""Statistics, deploys and the versions of agents."""

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
    "statistics",
    "statistics_causes",
    "statistics_position",
    "deploys",
    "agent_versions",
)
"""In the order in which they are created."""


def create_tables() -> None:
    op.create_table(
        "warrener_statistics",
        sa.Column("span", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("starts_at", MOMENT, primary_key=True),
        sa.Column("code_version", sa.Text(), primary_key=True),
        *(
            sa.Column(name, sa.Integer(), nullable=False)
            for name in ("succeeded", "dead", "cancelled", "expired", "failed_attempts", "lost_attempts")
        ),
        sa.Column("duration_sum", FRACTION, nullable=False),
        sa.Column("duration_max", FRACTION, nullable=False),
        text_column("durations"),
        sa.Column("queue_time_sum", FRACTION, nullable=False),
        sa.Column("queue_time_max", FRACTION, nullable=False),
        text_column("queue_times"),
        Rule("kind IN ('all', 'job_type', 'schedule')", name="series_kind_known"),
    )
    op.create_table(
        "warrener_statistics_causes",
        sa.Column("span", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("job_type", sa.Text(), primary_key=True),
        sa.Column("starts_at", MOMENT, primary_key=True),
        sa.Column("fingerprint", sa.Text(), primary_key=True),
        sa.Column("jobs", sa.Integer(), nullable=False),
        text_column("error_type"),
        text_column("message"),
    )
    op.create_table(
        "warrener_statistics_position",
        sa.Column("one", sa.Integer(), primary_key=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        moment_column("finished_at", nullable=False),
        sa.Column("job_id", ID, nullable=False),
        moment_column("complete_until", nullable=False),
        Rule("one = 1", name="one_position"),
    )
    op.create_table(
        "warrener_deploys",
        sa.Column("job_type", sa.Text(), primary_key=True),
        sa.Column("first_seen_at", MOMENT, primary_key=True),
        sa.Column("code_version", sa.Text(), primary_key=True),
        moment_column("last_seen_at", nullable=False),
        text_column("schema_hash"),
    )
    create_index("warrener_deploys_newest", "warrener_deploys", "first_seen_at")
    op.create_table(
        "warrener_agent_versions",
        sa.Column("agent_id", sa.Text(), primary_key=True),
        sa.Column("since", MOMENT, primary_key=True),
        text_column("code_version"),
    )
    create_index("warrener_agent_versions_since", "warrener_agent_versions", "since")

"""Job types, agents, breakers, the installation and duties."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import CheckConstraint as Rule

from warrener_store.migrations.versions.v0001.columns import GUARANTEES, ID, moment_column, text_column

TABLES = (
    "job_types",
    "agents",
    "breakers",
    "installation",
    "duties",
)
"""In the order in which they are created."""


def create_tables() -> None:
    op.create_table(
        "warrener_job_types",
        sa.Column("name", sa.Text(), primary_key=True),
        text_column("queue"),
        text_column("arguments_schema"),
        text_column("result_schema", nullable=True),
        text_column("guarantee"),
        text_column("policy"),
        text_column("description"),
        text_column("announced_by"),
        moment_column("announced_at", nullable=False),
        Rule(GUARANTEES, name="guarantee_known"),
    )
    op.create_table(
        "warrener_agents",
        sa.Column("agent_id", sa.Text(), primary_key=True),
        text_column("host"),
        sa.Column("pid", sa.Integer(), nullable=False),
        text_column("queues"),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("running", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        moment_column("started_at", nullable=False),
        moment_column("last_seen_at", nullable=False),
        text_column("job_types", nullable=True),
        text_column("free_slots", nullable=True),
        text_column("trouble", nullable=True),
        text_column("code_version", nullable=True),
        Rule("slots >= 0 AND running >= 0", name="slots_not_negative"),
    )
    op.create_table(
        "warrener_breakers",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        text_column("state"),
        sa.Column("manual", sa.Boolean(), nullable=False),
        moment_column("since", nullable=False),
        moment_column("until"),
        sa.Column("times_opened", sa.Integer(), nullable=False),
        sa.Column("probes_succeeded", sa.Integer(), nullable=False),
        text_column("reason"),
        text_column("job_types"),
        text_column("policy"),
        Rule("state IN ('closed', 'open', 'half_open')", name="breaker_state_known"),
    )
    op.create_table(
        "warrener_installation",
        sa.Column("one", sa.Integer(), primary_key=True),
        sa.Column("installation_id", ID, nullable=False),
        Rule("one = 1", name="one_installation"),
    )
    op.create_table(
        "warrener_duties",
        sa.Column("duty", sa.Text(), primary_key=True),
        text_column("holder"),
        moment_column("until", nullable=False),
    )

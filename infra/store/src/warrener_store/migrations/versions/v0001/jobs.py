"""Jobs, their attempts, log lines, counts, cancelled trees and checkpoints."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import CheckConstraint as Rule

from warrener_store.migrations.versions.v0001.columns import (
    FRACTION,
    GUARANTEES,
    ID,
    MOMENT,
    create_index,
    job_column,
    moment_column,
    text_column,
)

_STATES = "state IN ('waiting', 'queued', 'running', 'retrying', 'succeeded', 'dead', 'cancelled', 'expired')"
_OVER = "state IN ('cancelled', 'dead', 'expired', 'succeeded')"

TABLES = (
    "jobs",
    "attempts",
    "attempt_logs",
    "job_counts",
    "cancelled_trees",
    "checkpoints",
)
"""In the order in which they are created."""


def create_tables() -> None:
    op.create_table(
        "warrener_jobs",
        sa.Column("job_id", ID, primary_key=True),
        text_column("job_type"),
        text_column("queue"),
        text_column("arguments"),
        text_column("guarantee"),
        text_column("policy"),
        text_column("source"),
        text_column("idempotency_key", nullable=True),
        sa.Column("parent_id", ID),
        text_column("traceparent", nullable=True),
        text_column("tracestate", nullable=True),
        text_column("baggage", nullable=True),
        moment_column("requested_at", nullable=False),
        moment_column("accepted_at", nullable=False),
        moment_column("deadline_at"),
        text_column("request_hash"),
        sa.Column("version", sa.Integer(), nullable=False),
        text_column("state"),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        text_column("agent_id", nullable=True),
        text_column("watchers"),
        text_column("cancel_reason", nullable=True),
        moment_column("due_at"),
        moment_column("wake_at"),
        moment_column("dispatched_at"),
        moment_column("started_at"),
        moment_column("lease_until"),
        moment_column("finished_at"),
        sa.Column("progress", FRACTION),
        text_column("progress_note", nullable=True),
        text_column("result", nullable=True),
        text_column("error", nullable=True),
        moment_column("updated_at", nullable=False),
        moment_column("deadline_wake_at"),
        moment_column("run_started_at"),
        moment_column("run_finished_at"),
        Rule(_STATES, name="state_known"),
        Rule(GUARANTEES, name="guarantee_known"),
        Rule("version >= 1", name="version_from_one"),
        Rule("attempt >= 0 AND failures >= 0 AND losses >= 0", name="counts_not_negative"),
        Rule(f"({_OVER}) = (finished_at IS NOT NULL)", name="over_iff_finished_at"),
        Rule(f"({_OVER}) = (wake_at IS NULL)", name="over_iff_never_woken"),
        Rule(
            "state <> 'running' OR (agent_id IS NOT NULL AND lease_until IS NOT NULL)",
            name="running_has_owner_and_lease",
        ),
        Rule(
            "attempt >= 1 OR NOT (state IN ('queued', 'retrying', 'running'))",
            name="attempt_where_dispatched",
        ),
        Rule("state <> 'waiting' OR attempt = 0", name="no_attempt_while_waiting"),
        Rule("result IS NULL OR state = 'succeeded'", name="result_only_if_succeeded"),
        Rule("progress IS NULL OR (progress >= 0 AND progress <= 1)", name="progress_is_a_fraction"),
        Rule(
            "CASE WHEN run_finished_at IS NULL THEN run_started_at IS NULL ELSE state = 'succeeded' END",
            name="ran_only_if_succeeded",
        ),
        Rule(
            f"deadline_wake_at IS NULL OR (deadline_at IS NOT NULL AND NOT ({_OVER}))",
            name="deadline_watched_until_over",
        ),
    )
    create_index(
        "warrener_jobs_deadline",
        "warrener_jobs",
        "deadline_wake_at",
        "job_id",
        where="deadline_wake_at IS NOT NULL",
    )
    create_index(
        "warrener_jobs_due", "warrener_jobs", "wake_at", "job_id", "state", where="wake_at IS NOT NULL"
    )
    create_index(
        "warrener_jobs_key",
        "warrener_jobs",
        "idempotency_key",
        unique=True,
        where="idempotency_key IS NOT NULL",
    )
    create_index("warrener_jobs_ended", "warrener_jobs", "finished_at", where="finished_at IS NOT NULL")
    op.create_index("warrener_jobs_end", "warrener_jobs", [sa.text("substr(CAST(job_id AS text), 29)")])
    create_index(
        "warrener_jobs_source",
        "warrener_jobs",
        "source",
        where="substr(CAST(job_id AS text), 15, 1) = '5'",
    )
    create_index("warrener_jobs_listed", "warrener_jobs", "state", "job_type", "accepted_at", "job_id")
    create_index(
        "warrener_jobs_parent",
        "warrener_jobs",
        "parent_id",
        "state",
        "accepted_at",
        "job_id",
        where="parent_id IS NOT NULL",
    )
    create_index(
        "warrener_jobs_queued", "warrener_jobs", "queue", "dispatched_at", "job_id", where="state = 'queued'"
    )
    create_index("warrener_jobs_running", "warrener_jobs", "agent_id", where="state = 'running'")
    op.create_table(
        "warrener_attempts",
        job_column(),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        text_column("outcome"),
        text_column("agent_id", nullable=True),
        moment_column("dispatched_at"),
        moment_column("started_at"),
        moment_column("finished_at", nullable=False),
        text_column("error", nullable=True),
        text_column("verdict"),
        Rule("attempt >= 1", name="attempt_from_one"),
        Rule(
            "outcome IN ('succeeded', 'failed', 'cancelled', 'released', 'timed_out', 'lost', "
            "'not_started', 'snoozed')",
            name="outcome_known",
        ),
    )
    create_index(
        "warrener_attempts_lost", "warrener_attempts", "agent_id", "finished_at", where="outcome = 'lost'"
    )
    op.create_table(
        "warrener_attempt_logs",
        job_column(),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("started_at", MOMENT, primary_key=True),
        sa.Column("first_line", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("last_line", sa.BigInteger(), nullable=False),
        sa.Column("line_count", sa.Integer(), nullable=False),
        text_column("agent_id"),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        text_column("lines"),
        Rule("first_line >= 1 AND last_line >= first_line", name="lines_in_order"),
    )
    op.create_table(
        "warrener_job_counts",
        sa.Column("job_type", sa.Text(), primary_key=True),
        sa.Column("queue", sa.Text(), primary_key=True),
        sa.Column("state", sa.Text(), primary_key=True),
        sa.Column("slot", sa.SmallInteger(), primary_key=True, autoincrement=False),
        sa.Column("jobs", sa.BigInteger(), nullable=False),
        Rule(_STATES, name="counted_state_known"),
    )
    op.create_table(
        "warrener_cancelled_trees",
        job_column(),
        text_column("reason"),
        moment_column("cancelled_at", nullable=False),
    )
    op.create_table(
        "warrener_checkpoints",
        job_column(),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        text_column("state", nullable=True),
        moment_column("saved_at", nullable=False),
        Rule("number >= 1", name="number_from_one"),
    )

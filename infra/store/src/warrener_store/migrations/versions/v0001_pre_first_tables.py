"""Jobs, attempts, counts, dead letters, parked messages, job types and agents."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import CheckConstraint as Rule

revision = "0001"
down_revision = None

# Written out, not taken from the metadata: a step says for ever what it did on its day.
_ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")
_FRACTION: sa.Double[float] = sa.Double()
_OVER = "state IN ('cancelled', 'dead', 'expired', 'succeeded')"
_STATES = "state IN ('waiting', 'queued', 'running', 'retrying', 'succeeded', 'dead', 'cancelled', 'expired')"
_NEWEST = ("accepted_at", "job_id")
_GUARANTEES = "guarantee IN ('idempotent', 'transactional', 'exclusive')"


def upgrade() -> None:
    _make_jobs()
    _make_ends()
    _make_announcements()


def downgrade() -> None:
    for table in ("agents", "job_types", "parked", "dead_letters", "job_counts", "attempts", "jobs"):
        op.drop_table(f"warrener_{table}")


def _make_jobs() -> None:
    op.create_table(
        "warrener_jobs",
        sa.Column("job_id", _ID, primary_key=True),
        _text("job_type"),
        _text("queue"),
        _text("arguments"),
        _text("guarantee"),
        _text("policy"),
        _text("source"),
        _text("idempotency_key", nullable=True),
        sa.Column("parent_id", _ID),
        _text("traceparent", nullable=True),
        _text("tracestate", nullable=True),
        _moment("requested_at", nullable=False),
        _moment("accepted_at", nullable=False),
        _moment("deadline_at"),
        _text("fingerprint"),
        sa.Column("version", sa.Integer(), nullable=False),
        _text("state"),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        _text("owner", nullable=True),
        _text("watchers"),
        _text("cancel_reason", nullable=True),
        _moment("due_at"),
        _moment("wake_at"),
        _moment("dispatched_at"),
        _moment("started_at"),
        _moment("lease_until"),
        _moment("finished_at"),
        sa.Column("progress", _FRACTION),
        _text("progress_note", nullable=True),
        _text("result", nullable=True),
        _text("error", nullable=True),
        _moment("updated_at", nullable=False),
        _moment("deadline_wake_at"),
        *_job_rules(),
    )
    _index("warrener_jobs_key", "idempotency_key", where="idempotency_key IS NOT NULL", unique=True)
    _index("warrener_jobs_due", "wake_at", "job_id", "state", where="wake_at IS NOT NULL")
    _index("warrener_jobs_deadline", "deadline_wake_at", "job_id", where="deadline_wake_at IS NOT NULL")
    _index("warrener_jobs_parent", "parent_id", "state", *_NEWEST, where="parent_id IS NOT NULL")
    op.create_index("warrener_jobs_listed", "warrener_jobs", ["state", "job_type", *_NEWEST])
    op.create_index("warrener_jobs_by_state", "warrener_jobs", ["state", *_NEWEST])


def _job_rules() -> tuple[Rule, ...]:
    return (
        Rule(_STATES, name="state_known"),
        Rule(_GUARANTEES, name="guarantee_known"),
        Rule("version >= 1", name="version_from_one"),
        Rule("attempt >= 0 AND failures >= 0 AND losses >= 0", name="counts_not_negative"),
        Rule(f"({_OVER}) = (finished_at IS NOT NULL)", name="over_iff_finished_at"),
        Rule(f"({_OVER}) = (wake_at IS NULL)", name="over_iff_never_woken"),
        Rule(
            "state <> 'running' OR (owner IS NOT NULL AND lease_until IS NOT NULL)",
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
            f"deadline_wake_at IS NULL OR (deadline_at IS NOT NULL AND NOT ({_OVER}))",
            name="deadline_watched_until_over",
        ),
    )


def _make_ends() -> None:
    op.create_table(
        "warrener_attempts",
        _of_a_job(),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        _text("ended_as"),
        _text("agent_id", nullable=True),
        _moment("dispatched_at"),
        _moment("started_at"),
        _moment("finished_at", nullable=False),
        _text("error", nullable=True),
        _text("verdict"),
        Rule("attempt >= 1", name="attempt_from_one"),
        Rule(
            "ended_as IN "
            "('succeeded', 'failed', 'cancelled', 'released', 'timed_out', 'lost', 'not_started')",
            name="end_known",
        ),
    )
    op.create_table(
        "warrener_job_counts",
        sa.Column("job_type", sa.Text(), primary_key=True),
        sa.Column("state", sa.Text(), primary_key=True),
        sa.Column("slot", sa.SmallInteger(), primary_key=True, autoincrement=False),
        sa.Column("jobs", sa.BigInteger(), nullable=False),
        Rule(_STATES, name="counted_state_known"),
    )
    op.create_table(
        "warrener_dead_letters",
        _of_a_job(),
        _text("job_type"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        _text("reason"),
        _text("error", nullable=True),
        _moment("died_at", nullable=False),
        Rule("attempts >= 0", name="attempts_not_negative"),
    )
    op.create_index("warrener_dead_letters_newest", "warrener_dead_letters", ["died_at", "job_id"])
    op.create_table(
        "warrener_parked",
        sa.Column("parked_id", sa.Text(), primary_key=True),
        _text("queue"),
        _text("reason"),
        _text("detail"),
        _text("content_type", nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _moment("parked_at", nullable=False),
    )
    op.create_index("warrener_parked_newest", "warrener_parked", ["parked_at", "parked_id"])


def _make_announcements() -> None:
    op.create_table(
        "warrener_job_types",
        sa.Column("name", sa.Text(), primary_key=True),
        _text("queue"),
        _text("arguments_schema"),
        _text("result_schema", nullable=True),
        _text("guarantee"),
        _text("policy"),
        _text("description"),
        _text("announced_by"),
        _moment("announced_at", nullable=False),
        Rule(_GUARANTEES, name="guarantee_known"),
    )
    op.create_table(
        "warrener_agents",
        sa.Column("agent_id", sa.Text(), primary_key=True),
        _text("host"),
        sa.Column("pid", sa.Integer(), nullable=False),
        _text("queues"),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("running", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        _moment("started_at", nullable=False),
        _moment("last_seen_at", nullable=False),
        Rule("slots >= 0 AND running >= 0", name="slots_not_negative"),
    )


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _moment(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, _MOMENT, nullable=nullable)


def _of_a_job() -> sa.Column[Any]:
    return sa.Column(
        "job_id", _ID, sa.ForeignKey("warrener_jobs.job_id", ondelete="CASCADE"), primary_key=True
    )


def _index(name: str, *columns: str, where: str, unique: bool = False) -> None:
    op.create_index(
        name,
        "warrener_jobs",
        list(columns),
        unique=unique,
        postgresql_where=sa.text(where),
        sqlite_where=sa.text(where),
    )

"""All tables of version 1.0."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import CheckConstraint as Rule

revision = "0001"
down_revision = None

# Written out, not taken from the metadata: a step never changes once it is released.
_ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")
_FRACTION: sa.Double[float] = sa.Double()
_STATES = "state IN ('waiting', 'queued', 'running', 'retrying', 'succeeded', 'dead', 'cancelled', 'expired')"
_OVER = "state IN ('cancelled', 'dead', 'expired', 'succeeded')"
_GUARANTEES = "guarantee IN ('idempotent', 'transactional', 'exclusive')"
_TABLES = (
    "sessions",
    "agent_versions",
    "deploys",
    "statistics_position",
    "statistics_causes",
    "statistics",
    "audit",
    "duties",
    "installation",
    "breakers",
    "agents",
    "job_types",
    "arrivals",
    "trigger_bindings",
    "schedule_watches",
    "schedule_declarations",
    "ticks",
    "schedules",
    "escalation_policies",
    "incident_occurrences",
    "incidents",
    "parked",
    "redrives",
    "dead_letters",
    "checkpoints",
    "cancelled_trees",
    "job_counts",
    "attempt_logs",
    "attempts",
    "jobs",
)
"""In the order in which they are dropped."""


def upgrade() -> None:
    _create_jobs()
    _create_dead_letters()
    _create_incidents()
    _create_schedules()
    _create_services()
    _create_audit_log()
    _create_sessions()
    _create_statistics()


def downgrade() -> None:
    for table in _TABLES:
        op.drop_table(f"warrener_{table}")


def _create_jobs() -> None:
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
        _text("baggage", nullable=True),
        _moment("requested_at", nullable=False),
        _moment("accepted_at", nullable=False),
        _moment("deadline_at"),
        _text("request_hash"),
        sa.Column("version", sa.Integer(), nullable=False),
        _text("state"),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        _text("agent_id", nullable=True),
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
        _moment("run_started_at"),
        _moment("run_finished_at"),
        Rule(_STATES, name="state_known"),
        Rule(_GUARANTEES, name="guarantee_known"),
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
    _index(
        "warrener_jobs_deadline",
        "warrener_jobs",
        "deadline_wake_at",
        "job_id",
        where="deadline_wake_at IS NOT NULL",
    )
    _index("warrener_jobs_due", "warrener_jobs", "wake_at", "job_id", "state", where="wake_at IS NOT NULL")
    _index(
        "warrener_jobs_key",
        "warrener_jobs",
        "idempotency_key",
        unique=True,
        where="idempotency_key IS NOT NULL",
    )
    _index("warrener_jobs_ended", "warrener_jobs", "finished_at", where="finished_at IS NOT NULL")
    op.create_index("warrener_jobs_end", "warrener_jobs", [sa.text("substr(CAST(job_id AS text), 29)")])
    _index(
        "warrener_jobs_source",
        "warrener_jobs",
        "source",
        where="substr(CAST(job_id AS text), 15, 1) = '5'",
    )
    _index("warrener_jobs_listed", "warrener_jobs", "state", "job_type", "accepted_at", "job_id")
    _index(
        "warrener_jobs_parent",
        "warrener_jobs",
        "parent_id",
        "state",
        "accepted_at",
        "job_id",
        where="parent_id IS NOT NULL",
    )
    _index(
        "warrener_jobs_queued", "warrener_jobs", "queue", "dispatched_at", "job_id", where="state = 'queued'"
    )
    _index("warrener_jobs_running", "warrener_jobs", "agent_id", where="state = 'running'")
    op.create_table(
        "warrener_attempts",
        _of_a_job(),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        _text("outcome"),
        _text("agent_id", nullable=True),
        _moment("dispatched_at"),
        _moment("started_at"),
        _moment("finished_at", nullable=False),
        _text("error", nullable=True),
        _text("verdict"),
        Rule("attempt >= 1", name="attempt_from_one"),
        Rule(
            "outcome IN ('succeeded', 'failed', 'cancelled', 'released', 'timed_out', 'lost', "
            "'not_started', 'snoozed')",
            name="outcome_known",
        ),
    )
    _index("warrener_attempts_lost", "warrener_attempts", "agent_id", "finished_at", where="outcome = 'lost'")
    op.create_table(
        "warrener_attempt_logs",
        _of_a_job(),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("started_at", _MOMENT, primary_key=True),
        sa.Column("first_line", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("last_line", sa.BigInteger(), nullable=False),
        sa.Column("line_count", sa.Integer(), nullable=False),
        _text("agent_id"),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        _text("lines"),
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
        _of_a_job(),
        _text("reason"),
        _moment("cancelled_at", nullable=False),
    )
    op.create_table(
        "warrener_checkpoints",
        _of_a_job(),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        _text("state", nullable=True),
        _moment("saved_at", nullable=False),
        Rule("number >= 1", name="number_from_one"),
    )


def _create_dead_letters() -> None:
    op.create_table(
        "warrener_dead_letters",
        _of_a_job(),
        _text("job_type"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        _text("reason"),
        _text("error", nullable=True),
        _moment("died_at", nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False, server_default=""),
        sa.Column("state", sa.Text(), nullable=False, server_default="open"),
        sa.Column("redrive_id", _ID),
        sa.Column("redriven_as", _ID),
        sa.Column("redrives", sa.Integer(), nullable=False, server_default="0"),
        _moment("redriven_at"),
        _text("note", nullable=True),
        Rule("attempts >= 0", name="attempts_not_negative"),
        Rule(
            "state IN ('open', 'claimed', 'redriven', 'succeeded', 'died_again', 'died', 'reopened', "
            "'rejected', 'already_succeeded', 'dropped')",
            name="dead_letter_state_known",
        ),
    )
    _index(
        "warrener_dead_letters_redrive",
        "warrener_dead_letters",
        "redrive_id",
        "state",
        "died_at",
        "job_id",
        where="redrive_id IS NOT NULL",
    )
    _index("warrener_dead_letters_newest", "warrener_dead_letters", "died_at", "job_id")
    _index(
        "warrener_dead_letters_redriven_as",
        "warrener_dead_letters",
        "redriven_as",
        where="redriven_as IS NOT NULL",
    )
    _index(
        "warrener_dead_letters_unresolved",
        "warrener_dead_letters",
        "fingerprint",
        "died_at",
        "job_id",
        "state",
        where="state IN ('open', 'reopened', 'rejected')",
    )
    op.create_table(
        "warrener_redrives",
        sa.Column("redrive_id", _ID, primary_key=True),
        _text("kind"),
        _text("request"),
        _text("requested_by"),
        _text("reason"),
        _moment("requested_at", nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        _text("state"),
        _text("stop_reason"),
        _text("counts"),
        _moment("started_at", nullable=False),
        _text("counts_at_start"),
        _text("journal"),
        _moment("after_died_at"),
        sa.Column("after_job_id", _ID),
        _moment("wake_at"),
        _moment("updated_at", nullable=False),
        _moment("finished_at"),
        Rule("kind IN ('redrive', 'dry_run', 'drop')", name="redrive_kind_known"),
        Rule("state IN ('canary', 'rolling', 'stopped', 'done')", name="redrive_state_known"),
    )
    op.create_table(
        "warrener_parked",
        sa.Column("parked_id", sa.Text(), primary_key=True),
        _text("queue"),
        _text("reason"),
        _text("detail"),
        _text("content_type", nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _moment("parked_at", nullable=False),
        _text("exchange", nullable=True),
        _text("routing_key", nullable=True),
        _text("message_id", nullable=True),
        _text("type", nullable=True),
        _text("headers", nullable=True),
        sa.Column("times", sa.Integer(), nullable=False, server_default="1"),
    )
    _index("warrener_parked_newest", "warrener_parked", "parked_at", "parked_id")
    _index("warrener_parked_by_queue", "warrener_parked", "queue", "parked_at", "parked_id")
    _index("warrener_parked_by_reason", "warrener_parked", "reason", "parked_at", "parked_id")


def _create_incidents() -> None:
    op.create_table(
        "warrener_incidents",
        sa.Column("fingerprint", sa.Text(), primary_key=True),
        _text("kind"),
        _text("subject"),
        _text("job_type", nullable=True),
        _text("sample"),
        sa.Column("times", sa.Integer(), nullable=False),
        _moment("first_seen_at", nullable=False),
        _moment("last_seen_at", nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        _text("policy_version", nullable=True),
        _text("policy_history", nullable=True),
        sa.Column("step", sa.Integer(), nullable=False),
        _moment("due_at"),
        sa.Column("failed_tries", sa.Integer(), nullable=False),
        _text("delivered"),
        _text("last_error", nullable=True),
        _moment("wake_at"),
        _text("claimed_by", nullable=True),
        _moment("claimed_until"),
        _text("acknowledged_by", nullable=True),
        _moment("acknowledged_at"),
        _moment("snoozed_until"),
        _moment("closed_at"),
        _text("close_reason", nullable=True),
        Rule(
            "times >= 1 AND round >= 1 AND step >= 0 AND failed_tries >= 0",
            name="incident_counts_not_negative",
        ),
        Rule("closed_at IS NULL OR wake_at IS NULL", name="closed_incident_sleeps"),
    )
    _index(
        "warrener_incidents_due", "warrener_incidents", "wake_at", "fingerprint", where="wake_at IS NOT NULL"
    )
    _index("warrener_incidents_newest", "warrener_incidents", "last_seen_at", "fingerprint")
    _index(
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
        _text("subject"),
        _moment("raised_at", nullable=False),
        sa.Column("steps_done", sa.Integer(), nullable=False),
        Rule("steps_done >= 0", name="steps_done_not_negative"),
    )
    _index(
        "warrener_incident_occurrences_pending",
        "warrener_incident_occurrences",
        "fingerprint",
        "steps_done",
        "raised_at",
    )
    _index("warrener_incident_occurrences_raised", "warrener_incident_occurrences", "raised_at")
    op.create_table(
        "warrener_escalation_policies",
        sa.Column("version", sa.Text(), primary_key=True),
        _text("name"),
        _text("definition"),
        _moment("first_seen_at", nullable=False),
        _moment("last_seen_at", nullable=False),
    )


def _create_schedules() -> None:
    op.create_table(
        "warrener_schedules",
        sa.Column("name", sa.Text(), primary_key=True),
        _text("definition"),
        _moment("put_at", nullable=False),
        _text("zone_version"),
        sa.Column("paused", sa.Boolean(), nullable=False),
        _moment("next_at"),
        _moment("wake_at"),
        _moment("last_nominal_at"),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("last_job_id", _ID),
        _moment("last_fired_at"),
        sa.Column("pause_reason", sa.Text(), nullable=False, server_default=""),
        Rule("runs >= 0 AND waiting >= 0", name="runs_not_negative"),
    )
    _index("warrener_schedules_due", "warrener_schedules", "wake_at", "name", where="wake_at IS NOT NULL")
    _index(
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
        sa.Column("nominal_at", _MOMENT, primary_key=True),
        _text("status"),
        _moment("due_at", nullable=False),
        _moment("decided_at", nullable=False),
        _text("reason"),
        sa.Column("job_id", _ID),
        _moment("fired_at"),
        _moment("wake_at"),
        _text("request", nullable=True),
        Rule(
            "status IN ('fired', 'caught_up', 'coalesced', 'skipped', 'waiting', 'triggered')",
            name="status_known",
        ),
        Rule("(request IS NULL) = (wake_at IS NULL)", name="request_until_fired"),
    )
    _index("warrener_ticks_unpublished", "warrener_ticks", "wake_at", where="wake_at IS NOT NULL")
    _index("warrener_ticks_waiting", "warrener_ticks", "schedule", "nominal_at", where="status = 'waiting'")
    op.create_table(
        "warrener_schedule_declarations",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("definition_hash", sa.Text(), primary_key=True),
        _text("job_type"),
        _text("declared_by"),
        _moment("declared_at", nullable=False),
    )
    op.create_table(
        "warrener_schedule_watches",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("pause_after", sa.Integer()),
        sa.Column("success_within", _FRACTION),
        _moment("since", nullable=False),
        _moment("check_at", nullable=False),
        _moment("last_success_tick"),
        _moment("last_success_at"),
        Rule("pause_after IS NOT NULL OR success_within IS NOT NULL", name="something_expected"),
    )
    _index("warrener_schedule_watches_due", "warrener_schedule_watches", "check_at", "name")
    op.create_table(
        "warrener_trigger_bindings",
        sa.Column("exchange", sa.Text(), primary_key=True),
        sa.Column("key", sa.Text(), primary_key=True),
    )
    op.create_table(
        "warrener_arrivals",
        sa.Column("schedule", sa.Text(), primary_key=True),
        sa.Column("event_id", _ID, primary_key=True),
        _moment("occurred_at", nullable=False),
        _moment("received_at", nullable=False),
        _text("upstream"),
        _moment("nominal_at"),
        _text("event", nullable=True),
    )
    _index("warrener_arrivals_received", "warrener_arrivals", "received_at")
    _index(
        "warrener_arrivals_open",
        "warrener_arrivals",
        "schedule",
        "occurred_at",
        "event_id",
        where="event IS NOT NULL",
    )


def _create_services() -> None:
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
        _text("job_types", nullable=True),
        _text("free_slots", nullable=True),
        _text("trouble", nullable=True),
        _text("code_version", nullable=True),
        Rule("slots >= 0 AND running >= 0", name="slots_not_negative"),
    )
    op.create_table(
        "warrener_breakers",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        _text("state"),
        sa.Column("manual", sa.Boolean(), nullable=False),
        _moment("since", nullable=False),
        _moment("until"),
        sa.Column("times_opened", sa.Integer(), nullable=False),
        sa.Column("probes_succeeded", sa.Integer(), nullable=False),
        _text("reason"),
        _text("job_types"),
        _text("policy"),
        Rule("state IN ('closed', 'open', 'half_open')", name="breaker_state_known"),
    )
    op.create_table(
        "warrener_installation",
        sa.Column("one", sa.Integer(), primary_key=True),
        sa.Column("installation_id", _ID, nullable=False),
        Rule("one = 1", name="one_installation"),
    )
    op.create_table(
        "warrener_duties",
        sa.Column("duty", sa.Text(), primary_key=True),
        _text("holder"),
        _moment("until", nullable=False),
    )


def _create_audit_log() -> None:
    op.create_table(
        "warrener_audit",
        sa.Column("record_id", _ID, primary_key=True),
        _moment("recorded_at", nullable=False),
        _text("actor"),
        _text("role"),
        _text("method"),
        _text("address"),
        _text("action"),
        _text("subject"),
        _text("reason"),
        _text("outcome"),
        _text("sentence"),
        _moment("completed_at"),
        Rule(
            "outcome IN ('requested', 'accepted', 'refused', 'forbidden', 'failed')",
            name="audit_outcome_known",
        ),
        Rule("(outcome = 'requested') = (completed_at IS NULL)", name="audit_end_known_iff_completed"),
    )
    _index("warrener_audit_newest", "warrener_audit", "recorded_at", "record_id")
    for column in ("actor", "action", "subject"):
        _index(f"warrener_audit_{column}", "warrener_audit", column, "recorded_at", "record_id")


def _create_sessions() -> None:
    op.create_table(
        "warrener_sessions",
        sa.Column("session_key", sa.Text(), primary_key=True),
        _text("actor"),
        _text("role"),
        _text("method"),
        _text("credential"),
        _moment("opened_at", nullable=False),
        _moment("expires_at", nullable=False),
    )
    _index("warrener_sessions_expiry", "warrener_sessions", "expires_at")


def _create_statistics() -> None:
    op.create_table(
        "warrener_statistics",
        sa.Column("span", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("starts_at", _MOMENT, primary_key=True),
        sa.Column("code_version", sa.Text(), primary_key=True),
        *(
            sa.Column(name, sa.Integer(), nullable=False)
            for name in ("succeeded", "dead", "cancelled", "expired", "failed_attempts", "lost_attempts")
        ),
        sa.Column("duration_sum", _FRACTION, nullable=False),
        sa.Column("duration_max", _FRACTION, nullable=False),
        _text("durations"),
        sa.Column("queue_time_sum", _FRACTION, nullable=False),
        sa.Column("queue_time_max", _FRACTION, nullable=False),
        _text("queue_times"),
        Rule("kind IN ('all', 'job_type', 'schedule')", name="series_kind_known"),
    )
    op.create_table(
        "warrener_statistics_causes",
        sa.Column("span", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("job_type", sa.Text(), primary_key=True),
        sa.Column("starts_at", _MOMENT, primary_key=True),
        sa.Column("fingerprint", sa.Text(), primary_key=True),
        sa.Column("jobs", sa.Integer(), nullable=False),
        _text("error_type"),
        _text("message"),
    )
    op.create_table(
        "warrener_statistics_position",
        sa.Column("one", sa.Integer(), primary_key=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        _moment("finished_at", nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        _moment("complete_until", nullable=False),
        Rule("one = 1", name="one_position"),
    )
    op.create_table(
        "warrener_deploys",
        sa.Column("job_type", sa.Text(), primary_key=True),
        sa.Column("first_seen_at", _MOMENT, primary_key=True),
        sa.Column("code_version", sa.Text(), primary_key=True),
        _moment("last_seen_at", nullable=False),
        _text("schema_hash"),
    )
    _index("warrener_deploys_newest", "warrener_deploys", "first_seen_at")
    op.create_table(
        "warrener_agent_versions",
        sa.Column("agent_id", sa.Text(), primary_key=True),
        sa.Column("since", _MOMENT, primary_key=True),
        _text("code_version"),
    )
    _index("warrener_agent_versions_since", "warrener_agent_versions", "since")


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _moment(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, _MOMENT, nullable=nullable)


def _of_a_job() -> sa.Column[Any]:
    return sa.Column(
        "job_id", _ID, sa.ForeignKey("warrener_jobs.job_id", ondelete="CASCADE"), primary_key=True
    )


def _index(
    name: str, table: str, *columns: str, where: str = "", sqlite_where: str = "", unique: bool = False
) -> None:
    conditions: dict[str, Any] = {
        f"{dialect}_where": sa.text(text)
        for dialect, text in (("postgresql", where), ("sqlite", sqlite_where or where))
        if text
    }
    op.create_index(name, table, list(columns), unique=unique, **conditions)

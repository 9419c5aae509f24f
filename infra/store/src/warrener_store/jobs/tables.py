"""The tables of jobs, their attempts and counts, and of the rows that some jobs have beside their own."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, SmallInteger, Table, Text
from sqlalchemy import text as sql

from warrener_contracts.policy import Guarantee
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.databases.tables import FRACTION, ID, METADATA, moment, one_of, rule, text
from warrener_store.jobs.rows import AttemptOutcome
from warrener_store.jobs.rules import WITH_ATTEMPT

_OVER = one_of("state", sorted(TERMINAL))
END_OF_ID = "substr(CAST(job_id AS text), 29)"
"""The last eight characters."""
IS_DERIVED = "substr(CAST(job_id AS text), 15, 1) = '5'"
"""A UUID of version 5: `warrener_contracts.identity`."""

jobs = Table(
    "warrener_jobs",
    METADATA,
    # The request; never changes.
    Column("job_id", ID, primary_key=True),
    text("job_type"),
    text("queue"),
    text("arguments"),
    text("guarantee"),
    text("policy"),
    text("source"),
    text("idempotency_key", nullable=True),
    Column("parent_id", ID),
    text("traceparent", nullable=True),
    text("tracestate", nullable=True),
    text("baggage", nullable=True),
    moment("requested_at", nullable=False),
    moment("accepted_at", nullable=False),
    moment("deadline_at"),
    text("request_hash"),
    # The state.
    Column("version", Integer(), nullable=False),
    text("state"),
    Column("attempt", Integer(), nullable=False),
    Column("failures", Integer(), nullable=False),
    Column("losses", Integer(), nullable=False),
    text("agent_id", nullable=True),
    text("watchers"),
    text("cancel_reason", nullable=True),
    moment("due_at"),
    moment("wake_at"),
    moment("dispatched_at"),
    moment("started_at"),
    moment("lease_until"),
    moment("finished_at"),
    Column("progress", FRACTION),
    text("progress_note", nullable=True),
    text("result", nullable=True),
    text("error", nullable=True),
    moment("updated_at", nullable=False),
    # The store's own: when a supervisor must look at the deadline. It starts as deadline_at; claims move it.
    moment("deadline_wake_at"),
    # When the successful attempt ran; the columns above hold the rest of it.
    moment("run_started_at"),
    moment("run_finished_at"),
    rule("state_known", one_of("state", JobState)),
    rule("guarantee_known", one_of("guarantee", Guarantee)),
    rule("version_from_one", "version >= 1"),
    rule("counts_not_negative", "attempt >= 0 AND failures >= 0 AND losses >= 0"),
    rule("over_iff_finished_at", f"({_OVER}) = (finished_at IS NOT NULL)"),
    rule("over_iff_never_woken", f"({_OVER}) = (wake_at IS NULL)"),
    rule(
        "running_has_owner_and_lease",
        "state <> 'running' OR (agent_id IS NOT NULL AND lease_until IS NOT NULL)",
    ),
    rule("attempt_where_dispatched", f"attempt >= 1 OR NOT ({one_of('state', sorted(WITH_ATTEMPT))})"),
    rule("no_attempt_while_waiting", "state <> 'waiting' OR attempt = 0"),
    rule("result_only_if_succeeded", "result IS NULL OR state = 'succeeded'"),
    rule("progress_is_a_fraction", "progress IS NULL OR (progress >= 0 AND progress <= 1)"),
    rule(
        "ran_only_if_succeeded",
        "CASE WHEN run_finished_at IS NULL THEN run_started_at IS NULL ELSE state = 'succeeded' END",
    ),
    rule(
        "deadline_watched_until_over",
        f"deadline_wake_at IS NULL OR (deadline_at IS NOT NULL AND NOT ({_OVER}))",
    ),
)
"""One row a job. With ten million finished rows the hot statements see none of them: they go by the primary
key, or by a partial index that holds only jobs that are not over. PostgreSQL writes an entry into each index
at each change of a row, so there is no index without a query."""

Index(
    "warrener_jobs_key",
    jobs.c.idempotency_key,
    unique=True,
    postgresql_where=sql("idempotency_key IS NOT NULL"),
    sqlite_where=sql("idempotency_key IS NOT NULL"),
)
# In the order of claims, also if a million jobs are due at one moment. Claims select some states: with the
# state in the index, rows that are due for another service cost no visit.
Index(
    "warrener_jobs_due",
    jobs.c.wake_at,
    jobs.c.job_id,
    jobs.c.state,
    postgresql_where=sql("wake_at IS NOT NULL"),
    sqlite_where=sql("wake_at IS NOT NULL"),
)
Index(
    "warrener_jobs_deadline",
    jobs.c.deadline_wake_at,
    jobs.c.job_id,
    postgresql_where=sql("deadline_wake_at IS NOT NULL"),
    sqlite_where=sql("deadline_wake_at IS NOT NULL"),
)
# Running jobs by agent: read when a heartbeat's list differs, and when an agent is silent. Most jobs are over
# before they are known to run, and never stand in it.
Index(
    "warrener_jobs_running",
    jobs.c.agent_id,
    postgresql_where=sql("state = 'running'"),
    sqlite_where=sql("state = 'running'"),
)
# Lists: newest first of each state, by type and by parent; a list of all states or all types takes a page of
# each (`list_query.py`), so it needs no index of its own. New rows come at the right end of their state and
# type.
Index(
    "warrener_jobs_parent",
    jobs.c.parent_id,
    jobs.c.state,
    jobs.c.accepted_at,
    jobs.c.job_id,
    postgresql_where=sql("parent_id IS NOT NULL"),
    sqlite_where=sql("parent_id IS NOT NULL"),
)
# The jobs that each dispatch queue should hold, the first dispatched first; unpublished ones have no moment.
Index(
    "warrener_jobs_queued",
    jobs.c.queue,
    jobs.c.dispatched_at,
    jobs.c.job_id,
    postgresql_where=sql("state = 'queued'"),
    sqlite_where=sql("state = 'queued'"),
)
# The jobs that are over, in the order of their ends: statistics read each of them once (`statistics/`). A job
# enters it once, at its right end; equal moments share one entry in PostgreSQL.
Index(
    "warrener_jobs_ended",
    jobs.c.finished_at,
    postgresql_where=sql("finished_at IS NOT NULL"),
    sqlite_where=sql("finished_at IS NOT NULL"),
)
# By the end of an id, which people copy from a list (`job_search.py`); a UUID's text begins alike for hours.
Index("warrener_jobs_end", sql(END_OF_ID), _table=jobs)
# The sources of jobs whose id was derived, such as from the id that a requester chose: one entry of each
# source is read. Ids that clients make by default are no part of it.
Index(
    "warrener_jobs_source",
    jobs.c.source,
    postgresql_where=sql(IS_DERIVED),
    sqlite_where=sql(IS_DERIVED),
)
Index("warrener_jobs_listed", jobs.c.state, jobs.c.job_type, jobs.c.accepted_at, jobs.c.job_id)

attempts = Table(
    "warrener_attempts",
    METADATA,
    Column("job_id", ID, ForeignKey(jobs.c.job_id, ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer(), primary_key=True, autoincrement=False),
    text("outcome"),
    text("agent_id", nullable=True),
    moment("dispatched_at"),
    moment("started_at"),
    moment("finished_at", nullable=False),
    text("error", nullable=True),
    text("verdict"),
    rule("attempt_from_one", "attempt >= 1"),
    rule("outcome_known", one_of("outcome", AttemptOutcome)),
)
# Losses are few, and are listed by the agent that is to blame.
Index(
    "warrener_attempts_lost",
    attempts.c.agent_id,
    attempts.c.finished_at,
    postgresql_where=sql("outcome = 'lost'"),
    sqlite_where=sql("outcome = 'lost'"),
)

job_counts = Table(
    "warrener_job_counts",
    METADATA,
    Column("job_type", Text(), primary_key=True),
    Column("queue", Text(), primary_key=True),
    Column("state", Text(), primary_key=True),
    Column("slot", SmallInteger(), primary_key=True, autoincrement=False),
    Column("jobs", BigInteger(), nullable=False),
    rule("counted_state_known", one_of("state", JobState)),
)
"""The number of jobs by type, queue and state: fed by the statements that move them, never counted on
reading. The number is the sum over the slots. Each connection adds to a slot of its own, so that writers do
not wait for each other's commits on one hot row; a single slot may therefore be negative."""

cancelled_trees = Table(
    "warrener_cancelled_trees",
    METADATA,
    Column("job_id", ID, ForeignKey(jobs.c.job_id, ondelete="CASCADE"), primary_key=True),
    text("reason"),
    moment("cancelled_at", nullable=False),
)
"""Almost always empty: each batch of child jobs reads it."""

checkpoints = Table(
    "warrener_checkpoints",
    METADATA,
    Column("job_id", ID, ForeignKey(jobs.c.job_id, ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer(), nullable=False),
    Column("number", Integer(), nullable=False),
    text("state", nullable=True),
    moment("saved_at", nullable=False),
    rule("number_from_one", "number >= 1"),
)

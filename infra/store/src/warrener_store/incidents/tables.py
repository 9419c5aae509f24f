"""The tables of incidents, their occurrences and the policies they follow."""

from sqlalchemy import Column, Index, Integer, Table, Text
from sqlalchemy import text as sql

from warrener_store.databases.tables import METADATA, moment, rule, text

incidents = Table(
    "warrener_incidents",
    METADATA,
    Column("fingerprint", Text(), primary_key=True),
    text("kind"),
    text("subject"),
    text("job_type", nullable=True),
    text("sample"),
    Column("times", Integer(), nullable=False),
    moment("first_seen_at", nullable=False),
    moment("last_seen_at", nullable=False),
    Column("round", Integer(), nullable=False),
    text("policy_version", nullable=True),
    text("policy_history", nullable=True),
    Column("step", Integer(), nullable=False),
    moment("due_at"),
    Column("failed_tries", Integer(), nullable=False),
    text("delivered"),
    text("last_error", nullable=True),
    moment("wake_at"),
    text("claimed_by", nullable=True),
    moment("claimed_until"),
    text("acknowledged_by", nullable=True),
    moment("acknowledged_at"),
    moment("snoozed_until"),
    moment("closed_at"),
    text("close_reason", nullable=True),
    rule("incident_counts_not_negative", "times >= 1 AND round >= 1 AND step >= 0 AND failed_tries >= 0"),
    rule("closed_incident_sleeps", "closed_at IS NULL OR wake_at IS NULL"),
)
Index(
    "warrener_incidents_due",
    incidents.c.wake_at,
    incidents.c.fingerprint,
    postgresql_where=sql("wake_at IS NOT NULL"),
    sqlite_where=sql("wake_at IS NOT NULL"),
)
Index(
    "warrener_incidents_open",
    incidents.c.last_seen_at,
    incidents.c.fingerprint,
    postgresql_where=sql("closed_at IS NULL"),
    sqlite_where=sql("closed_at IS NULL"),
)
Index("warrener_incidents_newest", incidents.c.last_seen_at, incidents.c.fingerprint)

incident_occurrences = Table(
    "warrener_incident_occurrences",
    METADATA,
    Column("fingerprint", Text(), primary_key=True),
    Column("occurrence", Text(), primary_key=True),
    text("subject"),
    moment("raised_at", nullable=False),
    Column("steps_done", Integer(), nullable=False),
    rule("steps_done_not_negative", "steps_done >= 0"),
)
Index(
    "warrener_incident_occurrences_pending",
    incident_occurrences.c.fingerprint,
    incident_occurrences.c.steps_done,
    incident_occurrences.c.raised_at,
)
Index("warrener_incident_occurrences_raised", incident_occurrences.c.raised_at)

escalation_policies = Table(
    "warrener_escalation_policies",
    METADATA,
    Column("version", Text(), primary_key=True),
    text("name"),
    text("definition"),
    moment("first_seen_at", nullable=False),
    moment("last_seen_at", nullable=False),
)

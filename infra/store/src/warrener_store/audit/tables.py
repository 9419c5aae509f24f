"""The table of the audit log."""

from sqlalchemy import Column, Index, Table

from warrener_store.audit.rows import AuditOutcome
from warrener_store.databases.tables import ID, METADATA, moment, one_of, rule, text

audit = Table(
    "warrener_audit",
    METADATA,
    Column("record_id", ID, primary_key=True),
    moment("recorded_at", nullable=False),
    text("actor"),
    text("role"),
    text("method"),
    text("address"),
    text("action"),
    text("subject"),
    text("reason"),
    text("outcome"),
    text("sentence"),
    moment("completed_at"),
    rule("audit_outcome_known", one_of("outcome", AuditOutcome)),
    rule("audit_end_known_iff_completed", "(outcome = 'requested') = (completed_at IS NULL)"),
)
Index("warrener_audit_newest", audit.c.recorded_at, audit.c.record_id)
Index("warrener_audit_actor", audit.c.actor, audit.c.recorded_at, audit.c.record_id)
Index("warrener_audit_action", audit.c.action, audit.c.recorded_at, audit.c.record_id)
Index("warrener_audit_subject", audit.c.subject, audit.c.recorded_at, audit.c.record_id)

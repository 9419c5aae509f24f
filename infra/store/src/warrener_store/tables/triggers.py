"""What schedules wait for, and what of it has happened."""

from sqlalchemy import Column, Index, Table, Text
from sqlalchemy import text as sql

from warrener_store.tables.columns import ID, METADATA, moment, text

triggers = Table(
    "warrener_triggers",
    METADATA,
    Column("schedule", Text(), primary_key=True),  # no foreign key: its bindings outlive a schedule
    text("bindings"),
)

arrivals = Table(
    "warrener_arrivals",
    METADATA,
    Column("schedule", Text(), primary_key=True),
    Column("event_id", ID, primary_key=True),
    moment("told_at", nullable=False),
    moment("heard_at", nullable=False),
    text("upstream"),
    moment("nominal_at"),
    text("event", nullable=True),
)
Index(
    "warrener_arrivals_open",
    arrivals.c.schedule,
    arrivals.c.told_at,
    arrivals.c.event_id,
    postgresql_where=sql("event IS NOT NULL"),
    sqlite_where=sql("event IS NOT NULL"),
)
Index(
    "warrener_arrivals_over",
    arrivals.c.heard_at,
    postgresql_where=sql("event IS NULL"),
    sqlite_where=sql("event IS NULL"),
)

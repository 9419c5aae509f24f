"""What schedules wait for, and what of it has happened."""

from sqlalchemy import Column, Index, Table, Text
from sqlalchemy import text as sql

from warrener_store.tables.columns import ID, METADATA, moment, text
from warrener_store.tables.schedules import schedules

_WAITS = """({0}(asked, '"rule":{{"kind":"event"') > 0 OR {0}(asked, '"rule":{{"kind":"after"') > 0)"""
Index(
    "warrener_schedules_waiting",
    schedules.c.name,
    postgresql_where=sql(_WAITS.format("strpos")),
    sqlite_where=sql(_WAITS.format("instr")),
)

bound = Table(
    "warrener_bound",
    METADATA,
    Column("exchange", Text(), primary_key=True),
    Column("key", Text(), primary_key=True),
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
Index("warrener_arrivals_heard", arrivals.c.heard_at)

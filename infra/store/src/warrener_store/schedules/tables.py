"""The tables of schedules, ticks, declarations, expectations and arrivals."""

from sqlalchemy import Boolean, Column, Index, Integer, Table, Text
from sqlalchemy import text as sql

from warrener_contracts.events import TickStatus
from warrener_store.databases.tables import FRACTION, ID, METADATA, moment, one_of, rule, text

schedules = Table(
    "warrener_schedules",
    METADATA,
    Column("name", Text(), primary_key=True),
    text("definition"),
    moment("put_at", nullable=False),
    text("zone_version"),
    Column("paused", Boolean(), nullable=False),
    moment("next_at"),
    moment("wake_at"),
    moment("last_nominal_at"),
    Column("runs", Integer(), nullable=False),
    Column("waiting", Integer(), nullable=False),
    Column("last_job_id", ID),
    moment("last_fired_at"),
    Column("pause_reason", Text(), nullable=False, server_default=""),
    rule("runs_not_negative", "runs >= 0 AND waiting >= 0"),
)
Index(
    "warrener_schedules_due",
    schedules.c.wake_at,
    schedules.c.name,
    postgresql_where=sql("wake_at IS NOT NULL"),
    sqlite_where=sql("wake_at IS NOT NULL"),
)

ticks = Table(
    "warrener_ticks",
    METADATA,
    Column("schedule", Text(), primary_key=True),  # no foreign key: ticks outlive their schedule
    Column("nominal_at", moment("nominal_at").type, primary_key=True),
    text("status"),
    moment("due_at", nullable=False),
    moment("decided_at", nullable=False),
    text("reason"),
    Column("job_id", ID),
    moment("fired_at"),
    moment("wake_at"),
    text("request", nullable=True),
    rule("status_known", one_of("status", TickStatus)),
    rule("request_until_fired", "(request IS NULL) = (wake_at IS NULL)"),
)
declarations = Table(
    "warrener_schedule_declarations",
    METADATA,
    Column("name", Text(), primary_key=True),  # no foreign key: declarations outlive their schedules
    Column("definition_hash", Text(), primary_key=True),
    text("job_type"),
    text("declared_by"),
    moment("declared_at", nullable=False),
)

Index(
    "warrener_ticks_unpublished",
    ticks.c.wake_at,
    postgresql_where=sql("wake_at IS NOT NULL"),
    sqlite_where=sql("wake_at IS NOT NULL"),
)
Index(
    "warrener_ticks_waiting",
    ticks.c.schedule,
    ticks.c.nominal_at,
    postgresql_where=sql("status = 'waiting'"),
    sqlite_where=sql("status = 'waiting'"),
)

watches = Table(
    "warrener_schedule_watches",
    METADATA,
    Column("name", Text(), primary_key=True),  # no foreign key: the writers of schedules keep it consistent
    Column("pause_after", Integer()),
    Column("success_within", FRACTION),
    moment("since", nullable=False),
    moment("check_at", nullable=False),
    moment("last_success_tick"),
    moment("last_success_at"),
    rule("something_expected", "pause_after IS NOT NULL OR success_within IS NOT NULL"),
)
Index("warrener_schedule_watches_due", watches.c.check_at, watches.c.name)

_WAITS = (
    """({0}(definition, '"rule":{{"kind":"event"') > 0 OR {0}(definition, '"rule":{{"kind":"after"') > 0)"""
)
Index(
    "warrener_schedules_waiting",
    schedules.c.name,
    postgresql_where=sql(_WAITS.format("strpos")),
    sqlite_where=sql(_WAITS.format("instr")),
)

trigger_bindings = Table(
    "warrener_trigger_bindings",
    METADATA,
    Column("exchange", Text(), primary_key=True),
    Column("key", Text(), primary_key=True),
)

arrivals = Table(
    "warrener_arrivals",
    METADATA,
    Column("schedule", Text(), primary_key=True),
    Column("event_id", ID, primary_key=True),
    moment("occurred_at", nullable=False),
    moment("received_at", nullable=False),
    text("upstream"),
    moment("nominal_at"),
    text("event", nullable=True),
)
Index(
    "warrener_arrivals_open",
    arrivals.c.schedule,
    arrivals.c.occurred_at,
    arrivals.c.event_id,
    postgresql_where=sql("event IS NOT NULL"),
    sqlite_where=sql("event IS NOT NULL"),
)
Index("warrener_arrivals_received", arrivals.c.received_at)

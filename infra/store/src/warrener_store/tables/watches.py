"""What the supervisor watches schedules for."""

from sqlalchemy import Column, Index, Integer, Table, Text

from warrener_store.tables.columns import FRACTION, METADATA, moment, rule

watches = Table(
    "warrener_schedule_watches",
    METADATA,
    Column("name", Text(), primary_key=True),  # no foreign key: it is kept in step by those who put schedules
    Column("pause_after", Integer()),
    Column("success_within", FRACTION),
    moment("since", nullable=False),
    moment("look_at", nullable=False),
    moment("success_tick"),
    moment("succeeded_at"),
    rule("something_expected", "pause_after IS NOT NULL OR success_within IS NOT NULL"),
)
Index("warrener_schedule_watches_due", watches.c.look_at, watches.c.name)

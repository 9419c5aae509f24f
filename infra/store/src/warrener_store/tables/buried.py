"""What is buried: jobs whose attempts are used up, and messages that cannot be understood."""

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from warrener_store.tables.columns import ID, METADATA, moment, rule, text
from warrener_store.tables.jobs import jobs

dead_letters = Table(
    "warrener_dead_letters",
    METADATA,
    Column("job_id", ID, ForeignKey(jobs.c.job_id, ondelete="CASCADE"), primary_key=True),
    text("job_type"),
    Column("attempts", Integer(), nullable=False),
    text("reason"),
    text("error", nullable=True),
    moment("died_at", nullable=False),
    rule("attempts_not_negative", "attempts >= 0"),
)
Index("warrener_dead_letters_newest", dead_letters.c.died_at, dead_letters.c.job_id)

parked = Table(
    "warrener_parked",
    METADATA,
    Column("parked_id", Text(), primary_key=True),
    text("queue"),
    text("reason"),
    text("detail"),
    text("content_type", nullable=True),
    Column("body", LargeBinary(), nullable=False),
    moment("parked_at", nullable=False),
)
Index("warrener_parked_newest", parked.c.parked_at, parked.c.parked_id)

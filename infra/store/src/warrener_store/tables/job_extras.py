"""What is kept beside some jobs: that their tree is cancelled, and their last checkpoint."""

from sqlalchemy import Column, ForeignKey, Integer, Table

from warrener_store.tables.columns import ID, METADATA, moment, rule, text
from warrener_store.tables.jobs import jobs

cancelled_trees = Table(
    "warrener_cancelled_trees",
    METADATA,
    Column("job_id", ID, ForeignKey(jobs.c.job_id, ondelete="CASCADE"), primary_key=True),
    text("reason"),
    moment("cancelled_at", nullable=False),
)
"""Almost always empty: each batch of follow-ups looks into it."""

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

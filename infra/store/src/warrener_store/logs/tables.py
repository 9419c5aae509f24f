"""The table of log lines."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, Table

from warrener_store.databases.tables import ID, METADATA, MOMENT, rule, text
from warrener_store.jobs.tables import jobs

attempt_logs = Table(
    "warrener_attempt_logs",
    METADATA,
    Column("job_id", ID, ForeignKey(jobs.c.job_id, ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer(), primary_key=True, autoincrement=False),
    Column("started_at", MOMENT, primary_key=True),
    Column("first_line", BigInteger(), primary_key=True, autoincrement=False),
    Column("last_line", BigInteger(), nullable=False),
    Column("line_count", Integer(), nullable=False),
    text("agent_id"),
    Column("final", Boolean(), nullable=False),
    Column("size", Integer(), nullable=False),
    text("lines"),
    rule("lines_in_order", "first_line >= 1 AND last_line >= first_line"),
)
"""Chunks of lines, as agents have published them. A row is never changed, so that an attempt that logs a lot
rewrites nothing, but that the last one becomes final; old rows are deleted."""

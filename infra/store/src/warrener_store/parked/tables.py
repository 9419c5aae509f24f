"""The table of parked messages."""

from sqlalchemy import Column, Index, Integer, LargeBinary, Table, Text

from warrener_store.databases.tables import METADATA, moment, text

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
    # How it came, so that it can be published again in the same way.
    text("exchange", nullable=True),
    text("routing_key", nullable=True),
    text("message_id", nullable=True),
    text("type", nullable=True),
    text("headers", nullable=True),
    Column("times", Integer(), nullable=False, server_default="1"),
)
Index("warrener_parked_newest", parked.c.parked_at, parked.c.parked_id)
Index("warrener_parked_by_queue", parked.c.queue, parked.c.parked_at, parked.c.parked_id)
Index("warrener_parked_by_reason", parked.c.reason, parked.c.parked_at, parked.c.parked_id)

"""The table of sessions."""

from sqlalchemy import Column, Index, Table, Text

from warrener_store.databases.tables import METADATA, moment, text

sessions = Table(
    "warrener_sessions",
    METADATA,
    Column("session_key", Text(), primary_key=True),
    text("actor"),
    text("role"),
    text("method"),
    text("credential"),
    moment("opened_at", nullable=False),
    moment("expires_at", nullable=False),
)
Index("warrener_sessions_expiry", sessions.c.expires_at)

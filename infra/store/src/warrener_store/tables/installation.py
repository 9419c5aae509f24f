"""Which installation this store is."""

from sqlalchemy import Column, Integer, Table

from warrener_store.tables.columns import ID, METADATA, rule

installation = Table(
    "warrener_installation",
    METADATA,
    Column("one", Integer(), primary_key=True),
    Column("installation_id", ID, nullable=False),
    rule("one_installation", "one = 1"),
)
"""One row, written by the first service that starts."""

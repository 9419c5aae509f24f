"""All tables of this version as SQLAlchemy metadata; the migrations make the same (a test compares them)."""

from sqlalchemy import Column, Integer, Table

import warrener_store.agents.tables
import warrener_store.breakers.tables
import warrener_store.dead_letters.tables
import warrener_store.incidents.tables
import warrener_store.jobs.tables
import warrener_store.parked.tables
import warrener_store.retention.tables
import warrener_store.schedules.tables  # noqa: F401 - each adds its tables to the metadata
from warrener_store.databases.tables import ID, METADATA, rule

installation = Table(
    "warrener_installation",
    METADATA,
    Column("one", Integer(), primary_key=True),
    Column("installation_id", ID, nullable=False),
    rule("one_installation", "one = 1"),
)
"""One row, written by the first service that starts."""

__all__ = ["METADATA", "installation"]

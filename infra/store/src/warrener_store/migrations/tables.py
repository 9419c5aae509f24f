"""All tables of this version as SQLAlchemy metadata; the migrations make the same (a test compares them)."""

from sqlalchemy import Column, Integer, Table, Text

from warrener_store.agents import tables as agents
from warrener_store.audit import tables as audit
from warrener_store.breakers import tables as breakers
from warrener_store.databases.tables import ID, METADATA, moment, rule, text
from warrener_store.dead_letters import tables as dead_letters
from warrener_store.incidents import tables as incidents
from warrener_store.jobs import tables as jobs
from warrener_store.logs import tables as logs
from warrener_store.parked import tables as parked
from warrener_store.schedules import tables as schedules
from warrener_store.sessions import tables as sessions
from warrener_store.statistics import tables as statistics

installation = Table(
    "warrener_installation",
    METADATA,
    Column("one", Integer(), primary_key=True),
    Column("installation_id", ID, nullable=False),
    rule("one_installation", "one = 1"),
)
"""One row, written by the first service that starts."""

duties = Table(
    "warrener_duties",
    METADATA,
    Column("duty", Text(), primary_key=True),
    text("holder"),
    moment("until", nullable=False),
)
"""One row for each duty that was ever claimed."""

AGGREGATES = (
    agents,
    audit,
    breakers,
    dead_letters,
    incidents,
    jobs,
    logs,
    parked,
    schedules,
    sessions,
    statistics,
)
"""Each adds its tables to the metadata when it is imported."""

__all__ = ["AGGREGATES", "METADATA", "duties", "installation"]

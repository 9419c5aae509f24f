"""The tables of this version as SQLAlchemy metadata; the migrations make the same (a test compares them)."""

from warrener_store.tables.agents import agents, job_types
from warrener_store.tables.buried import dead_letters, parked
from warrener_store.tables.columns import METADATA
from warrener_store.tables.jobs import attempts, job_counts, jobs
from warrener_store.tables.schedules import schedules, ticks

__all__ = [
    "METADATA",
    "agents",
    "attempts",
    "dead_letters",
    "job_counts",
    "job_types",
    "jobs",
    "parked",
    "schedules",
    "ticks",
]

"""The tables of this version as SQLAlchemy metadata; the migrations make the same (a test compares them)."""

from warrener_store.tables.agents import agents, job_types
from warrener_store.tables.breakers import breakers
from warrener_store.tables.cases import case_entries, cases
from warrener_store.tables.columns import METADATA
from warrener_store.tables.dead_letters import campaigns, dead_letters, parked
from warrener_store.tables.installation import installation
from warrener_store.tables.job_extras import cancelled_trees, checkpoints
from warrener_store.tables.jobs import attempts, job_counts, jobs
from warrener_store.tables.pruning import pruning
from warrener_store.tables.schedules import declarations, schedules, ticks
from warrener_store.tables.triggers import arrivals, bound
from warrener_store.tables.watches import watches

__all__ = [
    "METADATA",
    "agents",
    "arrivals",
    "attempts",
    "bound",
    "breakers",
    "campaigns",
    "cancelled_trees",
    "case_entries",
    "cases",
    "checkpoints",
    "dead_letters",
    "declarations",
    "installation",
    "job_counts",
    "job_types",
    "jobs",
    "parked",
    "pruning",
    "schedules",
    "ticks",
    "watches",
]

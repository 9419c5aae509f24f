"""The tables of agents and job types."""

from sqlalchemy import Boolean, Column, Integer, Table, Text

from warrener_contracts.policy import Guarantee
from warrener_store.databases.tables import METADATA, moment, one_of, rule, text

job_types = Table(
    "warrener_job_types",
    METADATA,
    Column("name", Text(), primary_key=True),
    text("queue"),
    text("arguments_schema"),
    text("result_schema", nullable=True),
    text("guarantee"),
    text("policy"),
    text("description"),
    text("announced_by"),
    moment("announced_at", nullable=False),
    rule("guarantee_known", one_of("guarantee", Guarantee)),
)

agents = Table(
    "warrener_agents",
    METADATA,
    Column("agent_id", Text(), primary_key=True),
    text("host"),
    Column("pid", Integer(), nullable=False),
    text("queues"),
    Column("slots", Integer(), nullable=False),
    Column("running", Integer(), nullable=False),
    Column("draining", Boolean(), nullable=False),
    moment("started_at", nullable=False),
    moment("last_seen_at", nullable=False),
    text("job_types", nullable=True),
    text("free_slots", nullable=True),
    text("trouble", nullable=True),
    text("code_version", nullable=True),
    rule("slots_not_negative", "slots >= 0 AND running >= 0"),
)

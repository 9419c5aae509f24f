"""The table of circuit breakers that have been open."""

from sqlalchemy import Boolean, Column, Integer, Table, Text

from warrener_contracts.circuit_breaker import BreakerState
from warrener_store.databases.tables import METADATA, moment, one_of, rule, text

breakers = Table(
    "warrener_breakers",
    METADATA,
    Column("name", Text(), primary_key=True),
    Column("version", Integer(), nullable=False),
    text("state"),
    Column("manual", Boolean(), nullable=False),
    moment("since", nullable=False),
    moment("until"),
    Column("times_opened", Integer(), nullable=False),
    Column("probes_succeeded", Integer(), nullable=False),
    text("reason"),
    text("job_types"),
    text("policy"),
    rule("breaker_state_known", one_of("state", BreakerState)),
)

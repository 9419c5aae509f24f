"""The table of the pruner's claim."""

from sqlalchemy import Column, Integer, Table

from warrener_store.databases.tables import METADATA, moment, rule, text

pruning = Table(
    "warrener_pruning",
    METADATA,
    Column("one", Integer(), primary_key=True, autoincrement=False),
    text("holder"),
    moment("until", nullable=False),
    rule("one_pruner", "one = 1"),
)

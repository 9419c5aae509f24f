"""The metadata of all tables, the column types that PostgreSQL and SQLite spell differently, and
constraints."""

from collections.abc import Iterable

from sqlalchemy import CHAR, CheckConstraint, Column, DateTime, Double, MetaData, Text, Uuid

METADATA = MetaData()
"""Every table's name begins with `warrener_`: the store may live in a database that is not its own."""

FRACTION: Double[float] = Double()
ID = Uuid().with_variant(CHAR(36), "sqlite")
MOMENT = DateTime(timezone=True).with_variant(CHAR(27), "sqlite")  # fixed-width UTC text sorts as time does


def moment(name: str, *, nullable: bool = True) -> Column[object]:
    """A column for a moment."""
    return Column(name, MOMENT, nullable=nullable)


def text(name: str, *, nullable: bool = False) -> Column[str]:
    """A column for a text, or for a JSON document as text."""
    return Column(name, Text(), nullable=nullable)


def rule(name: str, condition: str) -> CheckConstraint:
    """A CHECK; `jobs/rules.py` has the same rules in Python."""
    return CheckConstraint(condition, name=name)


def one_of(column: str, values: Iterable[str]) -> str:
    """The condition that the column holds one of these words."""
    words = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({words})"

"""What one check found."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How it is."""

    WELL = "well"
    ODD = "odd"  # worth knowing; not wrong by itself
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was checked, how it is, and what to do about it."""

    check: str
    health: Health
    told: str
    do: str | None = None


def well(check: str, told: str) -> Finding:
    """Nothing to do."""
    return Finding(check, Health.WELL, told)


def odd(check: str, told: str, do: str) -> Finding:
    """Worth knowing."""
    return Finding(check, Health.ODD, told, do)


def wrong(check: str, told: str, do: str) -> Finding:
    """Exit code 1."""
    return Finding(check, Health.WRONG, told, do)

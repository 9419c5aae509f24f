"""What one check found."""

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """How it is."""

    OK = "well"
    WARNING = "odd"  # worth knowing; not wrong by itself
    FAILED = "wrong"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What was checked, how it is, and what to do about it."""

    check: str
    health: CheckStatus
    told: str
    do: str | None = None


def ok(check: str, told: str) -> CheckResult:
    """Nothing to do."""
    return CheckResult(check, CheckStatus.OK, told)


def warning(check: str, told: str, do: str) -> CheckResult:
    """Worth knowing."""
    return CheckResult(check, CheckStatus.WARNING, told, do)


def failed(check: str, told: str, do: str) -> CheckResult:
    """Exit code 1."""
    return CheckResult(check, CheckStatus.FAILED, told, do)

"""Checks of `warrener doctor`: each one tries something for real, and says what to do about what it finds."""

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """Status of a check."""

    OK = "well"
    WARNING = "odd"  # worth knowing, no fault by itself
    FAILED = "wrong"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The finding of one check, and what to do about it."""

    check: str
    health: CheckStatus
    message: str
    do: str | None = None


def ok(check: str, message: str) -> CheckResult:
    """A finding that needs no action."""
    return CheckResult(check, CheckStatus.OK, message)


def warning(check: str, message: str, do: str) -> CheckResult:
    """A finding worth knowing."""
    return CheckResult(check, CheckStatus.WARNING, message, do)


def failed(check: str, message: str, do: str) -> CheckResult:
    """A fault: the doctor exits with code 1."""
    return CheckResult(check, CheckStatus.FAILED, message, do)

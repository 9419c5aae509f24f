"""Checks of `warrener doctor`: each one tries something for real, and says what to do about what it finds."""

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """Status of a check."""

    OK = "ok"
    WARNING = "warning"  # worth knowing, no fault by itself
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The finding of one check, and what to do about it."""

    check: str
    status: CheckStatus
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
    return CheckResult(check, CheckStatus.ERROR, message, do)

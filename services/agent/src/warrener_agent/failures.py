"""What a handler raises or returns to say what shall become of its job, and what the agent raises about a
handler."""

from datetime import timedelta
from enum import StrEnum

from warrener_contracts.durations import parse_duration


class Fail(Exception):
    """No further attempt can mend this: the job is dead at once. Any other exception is tried again."""


class RetryAfter(Exception):
    """Try again, but not before `delay` has passed (seconds, a timedelta, or such as "90s", "5m")."""

    def __init__(self, delay: timedelta | float | str, message: str = "") -> None:
        self.delay = parse_duration(delay)
        super().__init__(message or f"asked to be tried again after {self.delay.total_seconds():g} s")


class Snooze(Exception):
    """Nothing went wrong, it is only too early: run the job again after `delay`, and charge it nothing.

    At least a second, so that it cannot spin; and after `max_snoozes` of them each one is charged.
    """

    def __init__(self, delay: timedelta | float | str, message: str = "") -> None:
        self.delay = parse_duration(delay)
        super().__init__(message or f"asked to be run again after {self.delay.total_seconds():g} s")


class Cancel(Exception):
    """The job has no purpose any more: it ends cancelled, at its own wish."""

    def __init__(self, reason: str = "its handler has no more use for it") -> None:
        super().__init__(reason)


OUTCOME_EXCEPTIONS = (Fail, RetryAfter, Snooze, Cancel)
"""What a handler may return in place of its result; it means the same as raised."""


class HandlerSignal(StrEnum):
    """What a handler asks for instead of having failed."""

    SNOOZED = "snoozed"
    CANCELLED = "cancelled"


class JobDefinitionError(TypeError):
    """A handler cannot be served as it is declared. Raised where it is declared."""

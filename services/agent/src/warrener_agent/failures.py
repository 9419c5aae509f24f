"""Exceptions by which a handler controls its job, and the error of a bad job definition."""

from datetime import timedelta
from enum import StrEnum

from warrener_contracts.fields import parse_duration


class Fail(Exception):
    """No further attempt can mend this: the job is dead at once. Any other exception is retried."""


class RetryAfter(Exception):
    """Try again, but not before `delay` has passed (seconds, a timedelta, or such as "90s", "5m")."""

    def __init__(self, delay: timedelta | float | str, message: str = "") -> None:
        self.delay = parse_duration(delay)
        super().__init__(message or f"retry requested after {self.delay.total_seconds():g} s")


class Snooze(Exception):
    """Nothing went wrong, but it is too early: run the job again after `delay`, uncharged.

    The delay is at least a second, so that a job cannot spin. After `max_snoozes`, each snooze is charged.
    """

    def __init__(self, delay: timedelta | float | str, message: str = "") -> None:
        self.delay = parse_duration(delay)
        super().__init__(message or f"next run requested after {self.delay.total_seconds():g} s")


class Cancel(Exception):
    """The job no longer has a purpose: it ends cancelled, by its own handler."""

    def __init__(self, reason: str = "its handler no longer needs it") -> None:
        super().__init__(reason)


OUTCOME_EXCEPTIONS = (Fail, RetryAfter, Snooze, Cancel)
"""Exceptions that a handler may return in place of its result; that means the same as raising them."""


class HandlerSignal(StrEnum):
    """An end that a handler requests instead of failing."""

    SNOOZED = "snoozed"
    CANCELLED = "cancelled"


class JobDefinitionError(TypeError):
    """A handler cannot be served as declared. Raised at its declaration."""

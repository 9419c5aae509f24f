"""What a handler raises to say how its attempt went wrong, and what the agent raises about a handler."""

from datetime import timedelta

from warrener_contracts.durations import duration


class Fail(Exception):
    """No further attempt can mend this: the job is dead at once. Any other exception is tried again."""


class RetryAfter(Exception):
    """Try again, but not before `delay` has passed (seconds, a timedelta, or such as "90s", "5m")."""

    def __init__(self, delay: timedelta | float | str, message: str = "") -> None:
        self.delay = duration(delay)
        super().__init__(message or f"asked to be tried again after {self.delay.total_seconds():g} s")


class JobDefinitionError(TypeError):
    """A handler cannot be served as it is declared. Raised where it is declared."""

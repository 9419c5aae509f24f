"""How long to wait before the next try."""

from typing import Protocol, runtime_checkable

from warrener_runtime.logs import Log


class ExponentialBackoff:
    """Delays that double from `first` to `ceiling`, and begin again after a success. Pure."""

    def __init__(self, first: float = 0.1, ceiling: float = 10.0) -> None:
        self._first = first
        self._ceiling = ceiling
        self.failures = 0

    def failed(self) -> float:
        """One more failure; the seconds to wait before the next try."""
        delay = min(self._ceiling, self._first * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return delay

    def succeeded(self) -> None:
        """The next failure waits the first delay again."""
        self.failures = 0


_REMIND = 300.0
"""Seconds after which a failure that goes on is logged again."""


@runtime_checkable
class Outage(Protocol):
    """An error that says of itself that what it needs is away: its traceback would tell nothing more."""

    @property
    def outage(self) -> bool: ...


class FailureStreak:
    """One thing that fails again and again. The first failure has a line, and so has the first of each other
    kind; an outage has no traceback."""

    def __init__(self, log: Log, **about: object) -> None:
        self._log, self._about = log, about
        self._logged_at: dict[type[BaseException], float] = {}
        self._since = 0.0
        self.failures = 0

    def failed(self, error: BaseException, text: str, now: float, *, action: str, **more: object) -> None:
        """One more. `now` is monotonic."""
        if not self.failures:
            self._since = now
        self.failures += 1
        logged_at = self._logged_at.get(type(error))
        if logged_at is not None and now - logged_at < _REMIND:
            return
        self._logged_at[type(error)] = now
        away = isinstance(error, OSError) or (isinstance(error, Outage) and error.outage)
        self._log.error(
            text,
            action=action,
            error=f"{type(error).__name__}: {error}",
            failures=self.failures,
            exc_info=None if away else error,
            **self._about,
            **more,
        )

    def recovered(self, text: str, now: float, *, action: str) -> None:
        """It went well: say so where it had failed."""
        if self.failures:
            seconds = round(now - self._since, 1)
            self._log.info(text, action=action, failures=self.failures, seconds=seconds, **self._about)
            self.failures = 0
            self._logged_at.clear()

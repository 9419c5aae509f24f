"""Repeated failures: the pause before the next try, and one log line for many."""

from warrener_runtime.logs import Log

_REMIND = 300.0  # seconds after which a continuing failure is logged again


class ExponentialBackoff:
    """Delays that double from `first` to `ceiling`, and start again after a success. Pure."""

    def __init__(self, first: float = 0.1, ceiling: float = 10.0) -> None:
        self._first = first
        self._ceiling = ceiling
        self.failures = 0

    def failed(self) -> float:
        """Count a failure; return the seconds to wait before the next try."""
        delay = min(self._ceiling, self._first * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return delay

    def succeeded(self) -> None:
        """Start again with the first delay."""
        self.failures = 0


def is_marked_outage(error: BaseException) -> bool:
    """True if the error has the attribute `outage`: its traceback would add nothing."""
    return bool(getattr(error, "outage", False))


def is_outage(error: BaseException) -> bool:
    """True if the error is one of the infrastructure, which may end by itself."""
    return isinstance(error, OSError) or is_marked_outage(error)


class FailureStreak:
    """Logs a run of failures of one operation: the first failure, and the first of each other kind. An
    outage is logged without a traceback."""

    def __init__(self, log: Log, **about: object) -> None:
        self._log, self._about = log, about
        self._logged_at: dict[type[BaseException], float] = {}
        self._since = 0.0
        self.failures = 0

    def failed(self, error: BaseException, text: str, now: float, *, action: str, **more: object) -> None:
        """Count a failure, and log it if it is the first of its kind. `now` is monotonic."""
        if not self.failures:
            self._since = now
        self.failures += 1
        logged_at = self._logged_at.get(type(error))
        if logged_at is not None and now - logged_at < _REMIND:
            return
        self._logged_at[type(error)] = now
        self._log.error(
            text,
            action=action,
            error=f"{type(error).__name__}: {error}",
            failures=self.failures,
            exc_info=None if is_outage(error) else error,
            **self._about,
            **more,
        )

    def recovered(self, text: str, now: float, *, action: str) -> None:
        """Log the recovery, with the number of failures, if there were any."""
        if self.failures:
            seconds = round(now - self._since, 1)
            self._log.info(text, action=action, failures=self.failures, seconds=seconds, **self._about)
            self.failures = 0
            self._logged_at.clear()

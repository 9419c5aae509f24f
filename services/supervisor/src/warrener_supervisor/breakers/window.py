"""Attempts of the last while, counted in slices of time."""

from collections import deque
from datetime import datetime, timedelta

from warrener_contracts.circuit_breaker import BreakerPolicy
from warrener_supervisor.breakers.attribution import AttemptCounts

_SLICES = 10


class Window:
    """How attempts have ended within the window of a policy; exact to a tenth of it."""

    def __init__(self) -> None:
        self._slices: deque[tuple[datetime, AttemptCounts]] = (
            deque()
        )  # each with the moment at which it began

    def add(self, counted: AttemptCounts, policy: BreakerPolicy, now: datetime) -> None:
        """Count these as ended now."""
        self._forget(policy, now)
        if self._slices and now - self._slices[-1][0] < policy.window / _SLICES:
            began, before = self._slices[-1]
            self._slices[-1] = (began, before + counted)
        else:
            self._slices.append((now, counted))

    def trip_reason(self, policy: BreakerPolicy, now: datetime) -> str | None:
        """Why the breaker opens; None where it need not."""
        self._forget(policy, now)
        successes = sum(counted.successes for _, counted in self._slices)
        failures = sum(counted.failures for _, counted in self._slices)
        if successes + failures < policy.at_least or failures < policy.failure_rate * (successes + failures):
            return None
        return (
            f"{failures} of {successes + failures} attempts within "
            f"{_format_seconds(policy.window)} have failed"
        )

    def _forget(self, policy: BreakerPolicy, now: datetime) -> None:
        while self._slices and now - self._slices[0][0] > policy.window:
            self._slices.popleft()


def _format_seconds(window: timedelta) -> str:
    return f"{window.total_seconds():g} s"

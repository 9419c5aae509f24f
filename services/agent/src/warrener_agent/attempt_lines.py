"""The agent's own log lines about its attempts: one for the start and one for the end of each.

A line costs as much as a short attempt. So some attempts a second have lines, failed ones first, and a line a
second counts the others.
"""

from collections.abc import Callable

from warrener_agent.decisions.outcomes import FailedOutcome, Outcome, SucceededOutcome, outcome_word
from warrener_contracts.events import AttemptDispatchedData
from warrener_runtime.logs import get_logger

_log = get_logger("agent.attempts")

MAX_STARTS, MAX_FAILURES = 20, 20
"""Attempts that get lines within a second: those that start, and failed ones besides."""
_MAX_ERROR = 500  # characters


class AttemptLines:
    """Writes these lines, within their limit."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._second = 0.0
        self._starts = self._failures = 0
        self._started = 0
        self.ended = 0
        """Attempts that ended without a line since the last summary."""

    def take(self, now: float) -> bool:
        """True if an attempt that starts gets lines."""
        if now - self._second >= 1.0:
            self._begin_second(now)
        if self._starts < MAX_STARTS:
            self._starts += 1
            return True
        self._started += 1
        return False

    def take_failure(self) -> bool:
        """True if a failed attempt whose start has no line gets one for its end."""
        now = self._monotonic()
        if now - self._second >= 1.0:
            self._begin_second(now)
        if self._failures < MAX_FAILURES:
            self._failures += 1
            return True
        return False

    def write_summary(self) -> None:
        """Write the number of attempts without lines, if there were any."""
        if self._started or self.ended:
            _log.info(
                "Further attempts started and ended without lines of their own.",
                action="agent.attempts_counted",
                started=self._started,
                ended=self.ended,
            )
            self._started = self.ended = 0

    def write_start(self, data: AttemptDispatchedData) -> None:
        """Write the line of a start."""
        _log.info(
            "An attempt started.",
            action="attempt.started",
            job_id=str(data.job_id),
            job_type=data.job_type,
            attempt=data.attempt,
            queue=data.queue,
        )

    def write_end(self, data: AttemptDispatchedData, began_at: float, outcome: Outcome) -> None:
        """Write the line of an end, with the duration and the outcome."""
        error = outcome.error if isinstance(outcome, FailedOutcome) else None
        write = _log.info if isinstance(outcome, SucceededOutcome) or error is None else _log.warning
        write(
            "An attempt ended.",
            action="attempt.ended",
            job_id=str(data.job_id),
            job_type=data.job_type,
            attempt=data.attempt,
            outcome=outcome_word(outcome),
            seconds=round(self._monotonic() - began_at, 3),
            **({"error": f"{error.type}: {error.message}"[:_MAX_ERROR]} if error is not None else {}),
        )

    def _begin_second(self, now: float) -> None:
        self.write_summary()
        self._second, self._starts, self._failures = now, 0, 0

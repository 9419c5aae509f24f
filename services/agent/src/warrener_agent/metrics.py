"""The metrics of an agent: slots, waiting and running times, calls of the ledger; and its log lines about
attempts."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from warrener_agent.decisions.outcomes import (
    FailedOutcome,
    Outcome,
    SucceededOutcome,
    SuspendedOutcome,
    outcome_word,
)
from warrener_agent.run_table import Run, RunTable
from warrener_contracts.events import AttemptDispatched, AttemptDispatchedData
from warrener_contracts.topology import dispatch_queue
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry.metric_names import LEDGER_DURATION, PROCESS_DURATION, QUEUE_TIME, SLOTS
from warrener_runtime.telemetry.metrics import LabelValues, Metrics

_log = get_logger("agent.attempts")

_WENT_WELL = (SucceededOutcome, SuspendedOutcome)
_MAX_STARTS, _MAX_FAILURES = 20, 20
"""Attempts that get lines within a second: those that start, and failed ones besides."""
_MAX_ERROR = 500  # characters


class AgentMetrics:
    def __init__(self, metrics: Metrics, queues: Sequence[str] = ()) -> None:
        self._queues = queues
        self._destinations = {queue: dispatch_queue(queue).name for queue in queues}
        self._slots = metrics.gauge(SLOTS)
        self._queue_time = metrics.histogram(QUEUE_TIME)
        self._process_duration = metrics.histogram(PROCESS_DURATION)
        self._ledger_duration = metrics.histogram(LEDGER_DURATION)

    def watch_slots(self, running: RunTable) -> None:
        """Report the slots of this table; each queue has slots of its own."""

        def slots() -> Mapping[LabelValues, int]:
            series: dict[LabelValues, int] = {}
            for queue in self._queues:
                series[queue, "free"] = running.free(queue)
                series[queue, "used"] = running.used(queue)
            return series

        self._slots.observe(slots)

    def record_start(self, event: AttemptDispatched, now: datetime) -> None:
        """Record how long an attempt has waited since it might have begun."""
        data, since = event.data, event.time
        if since is None:
            return
        if data.not_before is not None and data.not_before > since:
            since = data.not_before
        self._queue_time.record((now - since).total_seconds(), data.job_type, data.queue)

    def record_end(self, run: Run, outcome: Outcome, now: float) -> None:
        """Record how long an attempt has run, up to the monotonic moment `now`."""
        data = run.data
        destination = self._destinations.get(data.queue, data.queue)
        error = "" if isinstance(outcome, _WENT_WELL) else outcome_word(outcome)
        if isinstance(outcome, FailedOutcome) and outcome.handler_signal is None:
            error = outcome.error.type
        self._process_duration.record(now - run.began_at, destination, data.job_type, error)

    @contextmanager
    def ledger_call(self, operation: str) -> Generator[None]:
        """Record the time of a call of the ledger, and the error that it raises."""
        began, error_type = time.perf_counter(), ""
        try:
            yield
        except Exception as error:
            error_type = type(error).__name__
            raise
        finally:
            self._ledger_duration.record(time.perf_counter() - began, operation, error_type)


class AttemptLines:
    """Writes a line for the start and one for the end of an attempt.

    A line costs as much as a short attempt. So some attempts a second have lines, failed ones first, and a
    line a second counts the others.
    """

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
        if self._starts < _MAX_STARTS:
            self._starts += 1
            return True
        self._started += 1
        return False

    def take_failure(self) -> bool:
        """True if a failed attempt whose start has no line gets one for its end."""
        now = self._monotonic()
        if now - self._second >= 1.0:
            self._begin_second(now)
        if self._failures < _MAX_FAILURES:
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

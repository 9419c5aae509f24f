"""The metrics of an agent: slots, waiting and running times, calls of the ledger."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from warrener_agent.decisions.outcomes import FailedOutcome, Outcome, SucceededOutcome, outcome_word
from warrener_agent.run_table import Run, RunTable
from warrener_contracts.events import AttemptDispatched
from warrener_contracts.topology import dispatch_queue
from warrener_runtime.telemetry.metric_names import LEDGER_DURATION, PROCESS_DURATION, QUEUE_TIME, SLOTS
from warrener_runtime.telemetry.metrics import LabelValues, Metrics


class AgentMetrics:
    """Records what one agent does."""

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
        error = "" if isinstance(outcome, SucceededOutcome) else outcome_word(outcome)
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

"""The metrics of a scheduler: requests, dispatches of waiting jobs, ticks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from warrener_contracts.events import JobRequested, Reason, TickStatus
from warrener_runtime.telemetry.metric_names import JOBS_REQUESTED, PARKED, SCHEDULE_LAG, TICK_LATENESS, TICKS
from warrener_runtime.telemetry.metrics import Metrics
from warrener_scheduler.decisions.admission import Duplicate
from warrener_scheduler.decisions.backfill import is_backfilled
from warrener_scheduler.rejections import Rejected
from warrener_store.jobs.rows import JobRow
from warrener_store.parked.rows import ParkedMessage
from warrener_store.schedules.rows import TickRow

_ACCEPTED, _DUPLICATE, _REJECTED = "accepted", "duplicate", "rejected"


class SchedulerMetrics:
    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = metrics or Metrics.disabled()
        self._requested = metrics.counter(JOBS_REQUESTED)
        self._schedule_lag = metrics.histogram(SCHEDULE_LAG)
        self._ticks = metrics.counter(TICKS)
        self._parked = metrics.counter(PARKED)
        self._lateness = metrics.histogram(TICK_LATENESS)
        for status in TickStatus:
            self._ticks.add(0, status.value)

    def record_requests(
        self, events: Sequence[JobRequested], outcomes: Sequence[JobRow | Duplicate | Rejected]
    ) -> None:
        counts = Counter(map(_kind, events, outcomes))
        for (job_type, outcome), count in counts.items():
            self._requested.add(count, job_type, outcome)

    def record_parked(self, messages: Sequence[ParkedMessage]) -> None:
        """Count messages that this scheduler has parked itself."""
        for message in messages:
            self._parked.add(1, message.reason)

    def record_unreadable(self, count: int) -> None:
        """Count requests that could not be read."""
        self._requested.add(count, "", _REJECTED)

    def record_dispatches(self, due: Iterable[tuple[str, datetime]], now: datetime) -> None:
        """Record how late waiting jobs were dispatched: their types and when they were due."""
        for job_type, due_at in due:
            self._schedule_lag.record((now - due_at).total_seconds(), job_type)

    def record_ticks(self, ticks: Sequence[TickRow], now: datetime) -> None:
        """Count ticks, and record how late those were whose requests are confirmed now."""
        for status, count in Counter(tick.status for tick in ticks).items():
            self._ticks.add(count, status.value)
        for tick in ticks:
            if tick.request is not None and not is_backfilled(tick):
                self._lateness.record((now - tick.due_at).total_seconds())


def _kind(event: JobRequested, outcome: JobRow | Duplicate | Rejected) -> tuple[str, str]:
    if isinstance(outcome, JobRow):
        return outcome.job_type, _ACCEPTED
    if isinstance(outcome, Duplicate):
        return outcome.row.job_type, _DUPLICATE
    # A misspelt type would be a value of the label that never comes again.
    return "" if outcome.reason is Reason.UNKNOWN_JOB_TYPE else event.data.job_type, _REJECTED

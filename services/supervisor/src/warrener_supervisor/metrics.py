"""The metrics that each supervisor counts by itself: ends of jobs, retries, losses, parked messages."""

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime

from warrener_contracts.events import Reason
from warrener_contracts.state_machine import JobState
from warrener_runtime.telemetry.metric_names import (
    ATTEMPTS_LOST,
    ATTEMPTS_RETRIED,
    DEAD_LETTERS,
    JOB_DURATION,
    JOBS_FINISHED,
    PARKED,
)
from warrener_runtime.telemetry.metrics import Metrics
from warrener_store.jobs.rows import AttemptOutcome, JobRow
from warrener_store.jobs.views import SucceededJob
from warrener_store.parked.rows import ParkedMessage
from warrener_supervisor.decisions.context import JobTransition
from warrener_supervisor.decisions.judge import JobBatch

_NOTHING_WRONG = frozenset({AttemptOutcome.RELEASED, AttemptOutcome.SNOOZED})
_SUCCEEDED = JobState.SUCCEEDED.value


class SupervisorMetrics:
    """Records what one supervisor has saved, once for each change however often it is published."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = metrics or Metrics.disabled()
        self._finished = metrics.counter(JOBS_FINISHED)
        self._duration = metrics.histogram(JOB_DURATION)
        self._retried = metrics.counter(ATTEMPTS_RETRIED)
        self._lost = metrics.counter(ATTEMPTS_LOST)
        self._dead_letters = metrics.counter(DEAD_LETTERS)
        self._parked = metrics.counter(PARKED)
        for reason in Reason:
            self._parked.add(0, reason.value)

    def begin_series(self, job_types: Iterable[str], queues: Iterable[str]) -> None:
        """Begin the counts that alerts watch at 0: Prometheus sees no increase where a series begins."""
        for job_type in job_types:
            self._dead_letters.add(0, job_type)
        for queue in queues:
            self._lost.add(0, queue)

    def record_successes(self, jobs: Collection[SucceededJob]) -> None:
        """Count jobs that their successes have ended."""
        for job_type, count in Counter([job.job_type for job in jobs]).items():
            self._finished.add(count, job_type, _SUCCEEDED)
        record = self._duration.record
        for job in jobs:
            record((job.finished_at - job.requested_at).total_seconds(), job.job_type, _SUCCEEDED)

    def record_saved(self, batch: JobBatch) -> None:
        """Count the changes of a job that were saved."""
        for change in batch.saves:
            self._record_attempt(change)
            row = change.row
            if row.state.terminal:
                self._record_end(row)

    def record_parked(self, messages: Iterable[ParkedMessage]) -> None:
        """Count messages that were parked."""
        for reason, count in Counter(message.reason for message in messages).items():
            self._parked.add(count, reason)

    def _record_attempt(self, change: JobTransition) -> None:
        attempt, row = change.attempt, change.row
        if attempt is None:
            return
        if attempt.outcome is AttemptOutcome.LOST:
            self._lost.add(1, row.queue)
        if not row.state.terminal and attempt.outcome not in _NOTHING_WRONG:
            error = attempt.error.type if attempt.error is not None else attempt.outcome.value
            self._retried.add(1, row.job_type, error)

    def _record_end(self, row: JobRow) -> None:
        self._finished.add(1, row.job_type, row.state.value)
        self._duration.record(_seconds(row.requested_at, row.finished_at), row.job_type, row.state.value)
        if row.state is JobState.DEAD:
            self._dead_letters.add(1, row.job_type)


def _seconds(begin: datetime, end: datetime | None) -> float:
    return (end - begin).total_seconds() if end is not None else 0.0

"""Dispatch jobs that have waited for their time.

Attempt started → dispatch published → attempt marked as dispatched. A crash before the last step leaves a row
whose `dispatched_at` is not set, and a supervisor publishes it under the same attempt number. So an agent's
event about attempt 1 always finds attempt 1 in the store.
"""

from dataclasses import replace
from datetime import datetime

from warrener_contracts.state_machine import JobState
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Telemetry, TraceContext
from warrener_runtime.telemetry.waits import record_waits
from warrener_scheduler.dispatch_gates import BreakerCache, CongestedQueues
from warrener_scheduler.messages import dispatch_message
from warrener_scheduler.metrics import SchedulerMetrics
from warrener_scheduler.publishing import publish
from warrener_store.breakers.gate import RECHECK_INTERVAL
from warrener_store.jobs.rows import CLAIM_TIMEOUT, JobRow, Save
from warrener_store.jobs.timeline import current_waits
from warrener_store.store import StateStore

_log = get_logger("dispatch")

_BATCH_SIZE = 500


class Dispatcher:
    """Claims waiting jobs whose time has come, and dispatches them."""

    def __init__(
        self,
        bus: Bus,
        store: StateStore,
        clock: Clock,
        *,
        breaker_cache: BreakerCache,
        congestion: CongestedQueues,
        telemetry: Telemetry,
        metrics: SchedulerMetrics,
    ) -> None:
        self._telemetry, self._metrics = telemetry, metrics
        self._bus = bus
        self._store = store
        self._clock = clock
        self._breakers = breaker_cache
        self._congestion = congestion

    async def run_once(self) -> None:
        """Dispatch everything that is due."""
        while await self._dispatch_batch() >= _BATCH_SIZE:
            pass  # more may be due at the same moment

    async def _dispatch_batch(self) -> int:
        now = self._clock.now()
        claimed = await self._store.claim_due([JobState.WAITING], now, now + CLAIM_TIMEOUT, _BATCH_SIZE)
        # The supervisor ends the jobs whose deadline has passed.
        due = [row for row in claimed if row.deadline_at is None or row.deadline_at > now]
        # Computed once: breakers may change while the first rows are saved.
        held = {row.job_id for row in due if self._breakers.is_held(row, now)}
        await self._save([_postpone(row, now) for row in due if row.job_id in held])
        applied = await self._save([_start_attempt(row, now) for row in due if row.job_id not in held])
        self._record_waits(due, applied, now)
        opened = [row for row in applied if not self._congestion.is_closed(row.queue, now)]
        refused = await publish(self._bus, [dispatch_message(row, now) for row in opened], self._clock)
        unpublished = {job_id for job_id, _ in refused}
        confirmed = [
            _mark_dispatched(row, self._clock.now()) for row in opened if row.job_id not in unpublished
        ]
        due_at = {row.job_id: row.due_at for row in due}
        self._metrics.record_dispatches(
            [(row.job_type, at) for row in confirmed if (at := due_at[row.job_id]) is not None],
            self._clock.now(),
        )
        await self._save(confirmed)
        await self._congestion.record_refusals(
            refused, [*confirmed, *(row for row in opened if row.job_id in unpublished)]
        )
        if applied:
            _log.info("Waiting jobs were dispatched.", action="dispatch.done", jobs=len(applied))
        return len(claimed)

    def _record_waits(self, due: list[JobRow], applied: list[JobRow], now: datetime) -> None:
        """Record what these jobs have waited for until now."""
        dispatched = {row.job_id for row in applied if row.traceparent is not None}
        for row in due if dispatched else ():
            if row.job_id in dispatched:
                context = TraceContext(row.traceparent, row.tracestate)
                record_waits(self._telemetry, row, current_waits(row, now), context)

    async def _save(self, rows: list[JobRow]) -> list[JobRow]:
        """Save rows; returns those that were applied. Others were changed in between, as by a cancel."""
        if not rows:
            return []
        applied = await self._store.save_jobs([Save(row) for row in rows])
        return [row for row in rows if row.job_id in applied]


def _postpone(row: JobRow, now: datetime) -> JobRow:
    """Hold a job back until its breaker wakes it, or the recheck interval has passed."""
    return replace(
        row, version=row.version + 1, due_at=row.due_at or now, wake_at=now + RECHECK_INTERVAL, updated_at=now
    )


def _start_attempt(row: JobRow, now: datetime) -> JobRow:
    """Start attempt 1, not known to be published."""
    return replace(
        row,
        version=row.version + 1,
        state=JobState.QUEUED,
        attempt=1,
        due_at=None,
        wake_at=now + row.policy.start_timeout,
        dispatched_at=None,
        updated_at=now,
    )


def _mark_dispatched(row: JobRow, now: datetime) -> JobRow:
    """Note that the broker has the dispatch: the start timeout of the policy begins."""
    return replace(
        row,
        version=row.version + 1,
        wake_at=now + row.policy.start_timeout,
        dispatched_at=now,
        updated_at=now,
    )

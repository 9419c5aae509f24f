"""dispatch: jobs that waited for their time are sent to the agents when it has come.

Marked, published, and then marked as published: a crash before the last step leaves a row whose
`dispatched_at` is not set, and a supervisor publishes it under the same attempt number. An agent's
word about attempt 1 always finds attempt 1 in the store.
"""

from dataclasses import replace
from datetime import datetime

from warrener_contracts.states import JobState
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.breaker_cache import BreakerCache
from warrener_scheduler.congestion import CongestedQueues
from warrener_scheduler.dispatch_messages import dispatch_message
from warrener_scheduler.publishing import publish
from warrener_store.breakers.gate import RECHECK_INTERVAL
from warrener_store.jobs.rows import CLAIM_TIMEOUT, JobRow, Save
from warrener_store.store import StateStore

_log = get_logger("dispatch")


class Dispatcher:
    """The verb that watches what waits."""

    def __init__(
        self,
        bus: Bus,
        store: StateStore,
        clock: Clock,
        *,
        breaker_cache: BreakerCache,
        congestion: CongestedQueues,
        limit: int = 500,
    ) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._breakers = breaker_cache
        self._congestion = congestion
        self._limit = limit

    async def run_once(self) -> None:
        """Dispatch everything that is due."""
        while await self._dispatch_batch() >= self._limit:
            pass  # there is more of the same moment

    async def _dispatch_batch(self) -> int:
        now = self._clock.now()
        claimed = await self._store.claim_due([JobState.WAITING], now, now + CLAIM_TIMEOUT, self._limit)
        due = [row for row in claimed if not _has_expired(row, now)]
        # Asked once of each: breakers may turn while the first ones are saved.
        held = {row.job_id for row in due if self._breakers.is_held(row, now)}
        await self._save([postpone(row, now) for row in due if row.job_id in held])
        applied = await self._save([start_attempt(row, now) for row in due if row.job_id not in held])
        opened = [row for row in applied if not self._congestion.is_closed(row.queue, now)]
        refused = await publish(self._bus, [dispatch_message(row, now) for row in opened], self._clock)
        unpublished = {job_id for job_id, _ in refused}
        confirmed = [
            mark_dispatched(row, self._clock.now()) for row in opened if row.job_id not in unpublished
        ]
        await self._save(confirmed)
        await self._congestion.record_refusals(
            refused, [*confirmed, *(row for row in opened if row.job_id in unpublished)]
        )
        if applied:
            _log.info("Jobs that waited were dispatched.", action="dispatch.done", jobs=len(applied))
        return len(claimed)

    async def _save(self, rows: list[JobRow]) -> list[JobRow]:
        """The rows that were applied; the others were changed by somebody else, as by a cancel."""
        if not rows:
            return []
        applied = await self._store.save_jobs([Save(row) for row in rows])
        return [row for row in rows if row.job_id in applied]


def postpone(row: JobRow, now: datetime) -> JobRow:
    """Held back: looked at again when its breaker wakes it, and after PUT_OFF at the latest."""
    return replace(
        row, version=row.version + 1, due_at=row.due_at or now, wake_at=now + RECHECK_INTERVAL, updated_at=now
    )


def start_attempt(row: JobRow, now: datetime) -> JobRow:
    """Attempt 1, not known to be published."""
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


def mark_dispatched(row: JobRow, now: datetime) -> JobRow:
    """The broker has its dispatch: it may wait for an agent as long as its policy says."""
    return replace(
        row,
        version=row.version + 1,
        wake_at=now + row.policy.start_timeout,
        dispatched_at=now,
        updated_at=now,
    )


def _has_expired(row: JobRow, now: datetime) -> bool:
    """Its deadline has passed: the supervisor ends it."""
    return row.deadline_at is not None and row.deadline_at <= now

"""Dispatch queues that take no more: their jobs stay in the store, and supervisors publish them later.

A queue that has refused is not tried again for a while, so that neither it nor the other jobs of a batch
suffer; each scheduler remembers for itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.states import JobState
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.acceptance import Accepted, Decision
from warrener_store.port import StateStore
from warrener_store.rows import JobRow

_log = get_logger("congestion")

_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=1)


@dataclass(slots=True)
class _Closed:
    until: datetime
    pause: timedelta


class Congestion:
    """The queues that have refused dispatches lately."""

    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._closed: dict[str, _Closed] = {}

    def closed(self, queue: str, now: datetime) -> bool:
        """True if `queue` is not tried now."""
        found = self._closed.get(queue)
        return found is not None and now < found.until

    def unpublished(self, decision: Decision, now: datetime) -> Decision:
        """The decision with its job kept in the store, if its queue is not tried now."""
        if not self._closed or not isinstance(decision, Accepted):
            return decision
        row = decision.row
        if row.state is not JobState.QUEUED or not self.closed(row.queue, now):
            return decision
        return Accepted(replace(row, dispatched_at=None))

    async def leave(self, refused: Sequence[tuple[UUID, int]], rows: Iterable[JobRow]) -> None:
        """Keep these attempts of `rows` in the store, and their queues closed for a while."""
        if not refused:
            return
        now = self._clock.now()
        await self._store.mark_unpublished(refused, now)
        jobs = {job_id for job_id, _ in refused}
        for queue in sorted({row.queue for row in rows if row.job_id in jobs}):
            self._close(queue, now)

    def _close(self, queue: str, now: datetime) -> None:
        known = self._closed.get(queue)
        again = known is not None and now < known.until + known.pause
        pause = min(known.pause * 2, _LONGEST_PAUSE) if known is not None and again else _FIRST_PAUSE
        self._closed[queue] = _Closed(now + pause, pause)
        _log.warning(
            "A dispatch queue takes no more: its jobs stay in the store and are published later.",
            action="congestion.closed",
            queue=queue,
            pause=pause.total_seconds(),
        )

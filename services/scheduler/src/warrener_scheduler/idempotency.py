"""How long an idempotency key stands for its job, where that is shorter than the job is kept."""

from collections.abc import Sequence
from datetime import timedelta

from warrener_runtime.clock import Clock
from warrener_store.jobs.rows import Inserted, JobRow
from warrener_store.store import Store


class IdempotencyWindow:
    """Inserts jobs. A key whose window has passed is given to the first job that asks for it.

    Only a repeat looks at the window: a new job costs nothing, and no key is ever searched for.
    """

    def __init__(self, store: Store, clock: Clock, window: timedelta | None) -> None:
        self._store, self._clock, self._window = store, clock, window

    async def insert_jobs(self, rows: Sequence[JobRow]) -> list[Inserted]:
        """As the store does it, and again for those whose key a job has that ended before the window."""
        inserted = await self._store.insert_jobs(rows)
        if self._window is None:
            return inserted
        latest = self._clock.now() - self._window
        places = [
            place
            for place, (row, found) in enumerate(zip(rows, inserted, strict=True))
            if not found.new
            and found.row.job_id != row.job_id
            and found.row.state.terminal
            and found.row.accepted_at < latest
        ]
        if not places:
            return inserted
        await self._store.retention.release_keys({inserted[place].row.job_id for place in places})
        again = await self._store.insert_jobs([rows[place] for place in places])
        for place, found in zip(places, again, strict=True):
            inserted[place] = found
        return inserted

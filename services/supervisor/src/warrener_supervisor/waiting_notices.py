"""waiting_notices: notify the requesters of jobs whose queue has refused for some time, once per attempt.

A notified job is marked in the store first, by a conditional save that also decides which of several
supervisors publishes. A supervisor that dies between the two leaves at most a slice without its notice; the
store still says why these jobs wait.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import JobWaiting, JobWaitingData
from warrener_contracts.messages import Message, as_reply, build_message
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.job_row import evolve
from warrener_store.port import Save, StateStore
from warrener_store.queued import FIRST_ID, REFUSAL_REPORTED
from warrener_store.rows import JobRow
from warrener_supervisor import effects
from warrener_supervisor.source import SOURCE

_log = get_logger("waiting_notices")

_SLICE = 500
_SLICES = 4
"""Slices per look, over all queues: 2,000 jobs."""
_FIRST_PAUSE, _MAX_PAUSE = timedelta(seconds=15), timedelta(minutes=5)


@dataclass(slots=True)
class _Position:
    """How far the unpublished jobs of a queue are read, in the order of their ids.

    New jobs mostly follow, since most ids grow with time; for the others the queue is read again from its
    first job, at growing intervals.
    """

    last: UUID = FIRST_ID
    pause: timedelta = _FIRST_PAUSE
    again_at: datetime | None = None


class WaitingNotices:
    """Publishes `job.waiting` in slices."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock) -> None:
        self._bus, self._store, self._clock = bus, store, clock
        self._positions: dict[str, _Position] = {}

    async def publish(self, refusing: Mapping[str, datetime]) -> None:
        """Publish the next notices; `refusing` maps each queue to the time of its first refusal."""
        known = {queue: at for queue, at in self._positions.items() if queue in refusing}
        # The queues that were read in the last look come last, so that a long one keeps none from its turn.
        self._positions = {queue: _Position() for queue in refusing if queue not in known} | known
        left = _SLICES
        for queue, position in list(self._positions.items()):
            while left and await self._slice(queue, refusing[queue], position):
                left -= 1
            self._positions[queue] = self._positions.pop(queue)
            if not left:
                return

    async def _slice(self, queue: str, since: datetime, position: _Position) -> bool:
        """Notify the requesters of one slice; True if more may follow at once."""
        now = self._clock.now()
        if position.again_at is not None and now >= position.again_at:
            position.last, position.again_at = FIRST_ID, None
        rows = await self._store.unpublished_jobs(queue, now, _SLICE, after=position.last)
        if rows:
            position.last = rows[-1].job_id
            await self._notify([row for row in rows if row.wake_at != REFUSAL_REPORTED], since, now)
        if len(rows) == _SLICE:
            return True
        if position.again_at is None:
            position.again_at = now + position.pause
            position.pause = min(position.pause * 2, _MAX_PAUSE)
        return False

    async def _notify(self, rows: Iterable[JobRow], since: datetime, now: datetime) -> None:
        marked = [evolve(row, version=row.version + 1, wake_at=REFUSAL_REPORTED) for row in rows]
        if not marked:
            return
        applied = await self._store.save_jobs([Save(row) for row in marked])
        mine = [row for row in marked if row.job_id in applied]
        await effects.publish(
            self._bus, [message for row in mine for message in _messages(row, since, now)], self._clock
        )
        _log.info(
            "Requesters were notified that jobs wait.", action="waiting_notices.published", jobs=len(mine)
        )


def _messages(row: JobRow, since: datetime, now: datetime) -> list[Message]:
    """`job.waiting` to subscribers, and to each reply address."""
    event = JobWaiting(
        id=f"{row.job_id}:{row.attempt}:waiting",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=JobWaitingData(
            job_id=row.job_id,
            job_type=row.job_type,
            attempt=row.attempt,
            queue=row.queue,
            reason=(
                f"dispatch queue {row.queue} takes no messages since {since.isoformat(timespec='seconds')}:"
                " it is full or without a quorum; the job runs once the queue takes it"
            ),
            since=since,
        ),
    )
    to_all = build_message(event)
    return [to_all, *(as_reply(to_all, address) for address in row.watchers)]

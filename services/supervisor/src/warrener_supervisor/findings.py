"""Publish what the watchdog and the loss detector find to the judge, one finding at a time for a job.

A finding that nobody has read yet is not repeated: the repeats would lengthen the queue that they wait for.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from warrener_contracts.events import Event
from warrener_contracts.messages import build_message
from warrener_contracts.topology import STATUS_QUEUE
from warrener_runtime.bus.port import Bus, BusUnreachable
from warrener_runtime.bus.types import PublishResult
from warrener_runtime.clock import Clock
from warrener_store.jobs.rows import JobRow

_FORGET_AFTER = timedelta(minutes=10)


class FindingPublisher:
    """Publishes findings once, because after an outage they may no longer be true.

    A finding that the broker has confirmed is published again only once its job has changed since, or the
    queue of status events was empty since. It may have been lost with a purge that messages without end
    hide, so after ten minutes it is published in any case. A process knows its own findings: there are at
    most as many of a job in the queue as supervisors.
    """

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock
        self._unread: dict[tuple[UUID, str], datetime] = {}

    async def publish(self, found: Iterable[tuple[JobRow, Event[Any]]]) -> tuple[int, int]:
        """Publish the findings about these jobs; return how many, and how many the broker did not confirm."""
        found, now = list(found), self._clock.now()
        self._unread = {key: at for key, at in self._unread.items() if now - at < _FORGET_AFTER}
        if found and self._unread and await self._is_read():
            self._unread.clear()
        due = [(row, event) for row, event in found if not self._is_unread(row, event)]
        if not due:
            return 0, 0
        results = await self._bus.publish([build_message(event) for _, event in due])
        confirmed = [
            (row.job_id, event.type)
            for (row, event), result in zip(due, results, strict=True)
            if result is PublishResult.CONFIRMED
        ]
        self._unread |= dict.fromkeys(confirmed, now)
        return len(due), len(due) - len(confirmed)

    def _is_unread(self, row: JobRow, event: Event[Any]) -> bool:
        published_at = self._unread.get((row.job_id, event.type))
        return published_at is not None and row.updated_at <= published_at

    async def _is_read(self) -> bool:
        try:
            return not (await self._bus.backlog(STATUS_QUEUE.name)).waiting
        except BusUnreachable:
            return False

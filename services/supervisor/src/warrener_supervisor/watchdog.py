"""Report what is due to the judge by the status exchange, one finding at a time for a job.

A finding that nobody has read yet is not repeated: the repeats would lengthen the queue that they wait for.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from warrener_contracts.events import Event
from warrener_contracts.messages import batch_messages, build_message
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import STATUS_QUEUE
from warrener_runtime.bus.port import Bus, BusUnreachable
from warrener_runtime.bus.types import PublishResult
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.gates.rows import takes_turns
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import START_TIMEOUT_REPORTED
from warrener_supervisor.decisions.starts import timeout_check_at
from warrener_supervisor.decisions.timeouts import deadline_event, has_overrun, watchdog_event
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.limits import SlotKeeper

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


_log = get_logger("watchdog")

_BATCH_SIZE = 500
_WATCHED = (JobState.RUNNING, JobState.RETRYING)


class Watchdog:
    """Reports time limits. A finding read without an effect is published again after its claim."""

    def __init__(self, ports: SupervisorPorts, slots: SlotKeeper) -> None:
        self._bus, self._store, self._clock, self._timings = ports
        self._slots = slots
        self._findings = FindingPublisher(ports.bus, ports.clock)

    async def run_once(self) -> None:
        """Report all jobs that are due."""
        now = self._clock.now()
        while await self._publish_due(now) >= _BATCH_SIZE:
            pass  # more are due at the same moment
        await self._name_waiting(now)

    async def _publish_due(self, now: datetime) -> int:
        until = now + self._timings.claim
        due = await self._store.claim_due(_WATCHED, now, until, _BATCH_SIZE)
        late = await self._store.claim_deadlines(now, until, _BATCH_SIZE)
        await self._slots.retry([row for row in due if row.state is JobState.RETRYING and takes_turns(row)])
        due_here = [row for row in due if row.state is not JobState.RETRYING or not takes_turns(row)]
        events = [(row, watchdog_event(row, now, self._timings)) for row in due_here]
        events += [(row, deadline_event(row, now)) for row in late]
        found = [(row, event) for row, event in events if event is not None]
        _log_reported(*await self._findings.publish(found))
        await self._watch_later([row for row in due if row.state is JobState.RUNNING], now)
        return max(len(due), len(late))

    async def _name_waiting(self, now: datetime) -> None:
        """Report jobs that have waited in their queue for longer than their start_timeout, once each.

        One batch per look, because a backlog of a million must not keep the judge from its other work.
        """
        due = await self._store.claim_due(
            [JobState.QUEUED], now, now + self._timings.renotify_interval, _BATCH_SIZE
        )
        events = [event for row in due if (event := watchdog_event(row, now, self._timings)) is not None]
        messages = batch_messages(map(build_message, events))
        # Once: after an outage the events may no longer be true.
        results = await self._bus.publish(messages) if messages else []
        unconfirmed = sum(result is not PublishResult.CONFIRMED for result in results)
        _log_reported(len(messages), unconfirmed)
        if due and not unconfirmed:
            named = [evolve(row, version=row.version + 1, wake_at=START_TIMEOUT_REPORTED) for row in due]
            await self._store.save_jobs([Save(row) for row in named])

    async def _watch_later(self, running: Iterable[JobRow], now: datetime) -> None:
        """Move `wake_at` to the timeout, for jobs that a claim or an older version has woken before it."""
        saves: list[Save] = []
        for row in running:
            if not has_overrun(row, now, self._timings):
                check_at = timeout_check_at(row, row.started_at or now, self._timings)
                saves.append(Save(evolve(row, version=row.version + 1, wake_at=check_at)))
        if saves:
            await self._store.save_jobs(saves)


def _log_reported(jobs: int, unconfirmed: int) -> None:
    if jobs:
        counts = {"jobs": jobs, "unconfirmed": unconfirmed}
        _log.info("Due jobs were reported to the judge.", action="watchdog.reported", **counts)

"""Find jobs whose time has come and report them to the judge by the status exchange."""

from collections.abc import Iterable
from datetime import datetime

from warrener_contracts.messages import Message, batch_messages, build_message
from warrener_contracts.state_machine import JobState
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import START_TIMEOUT_REPORTED
from warrener_store.store import StateStore
from warrener_supervisor import effects
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.decisions.starts import timeout_check_at
from warrener_supervisor.decisions.timeouts import deadline_event, has_overrun, watchdog_event
from warrener_supervisor.findings import FindingPublisher

_log = get_logger("watchdog")

_WATCHED = (JobState.RUNNING, JobState.RETRYING)


class Watchdog:
    """Reports time limits. A finding that was read without an effect is published again when its claim has
    run out."""

    def __init__(
        self,
        bus: Bus,
        store: StateStore,
        clock: Clock,
        timings: Timings,
        *,
        limit: int = 500,
    ) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._timings = timings
        self._limit = limit
        self._findings = FindingPublisher(bus, clock)

    async def run_once(self) -> None:
        """Report all jobs that are due."""
        now = self._clock.now()
        while await self._publish_due(now) >= self._limit:
            pass  # more are due at the same moment
        await self._name_waiting(now)

    async def _publish_due(self, now: datetime) -> int:
        until = now + self._timings.claim
        due = await self._store.claim_due(_WATCHED, now, until, self._limit)
        late = await self._store.claim_deadlines(now, until, self._limit)
        events = [(row, watchdog_event(row, now, self._timings)) for row in due]
        events += [(row, deadline_event(row, now)) for row in late]
        _log_reported(
            *await self._findings.publish((row, event) for row, event in events if event is not None)
        )
        await self._watch_later([row for row in due if row.state is JobState.RUNNING], now)
        return max(len(due), len(late))

    async def _name_waiting(self, now: datetime) -> None:
        """Report jobs that have waited in their queue for longer than their start_timeout, once each.

        One batch per look, because a backlog of a million must not keep the judge from its other work.
        """
        due = await self._store.claim_due(
            [JobState.QUEUED], now, now + self._timings.renotify_interval, self._limit
        )
        events = [event for row in due if (event := watchdog_event(row, now, self._timings)) is not None]
        if due and await self._publish(batch_messages(map(build_message, events))):
            named = [evolve(row, version=row.version + 1, wake_at=START_TIMEOUT_REPORTED) for row in due]
            await self._store.save_jobs([Save(row) for row in named])

    async def _watch_later(self, running: Iterable[JobRow], now: datetime) -> None:
        """Move `wake_at` to the timeout, for jobs that a claim or an older version has woken before it."""
        saves = [
            Save(
                evolve(
                    row,
                    version=row.version + 1,
                    wake_at=timeout_check_at(row, row.started_at or now, self._timings),
                )
            )
            for row in running
            if not has_overrun(row, now, self._timings)
        ]
        if saves:
            await self._store.save_jobs(saves)

    async def _publish(self, messages: list[Message]) -> bool:
        """Return True if the broker confirmed all."""
        unconfirmed = await effects.publish_once(self._bus, messages) if messages else 0
        _log_reported(len(messages), unconfirmed)
        return not unconfirmed


def _log_reported(jobs: int, unconfirmed: int) -> None:
    if jobs:
        _log.info(
            "Due jobs were reported to the judge.",
            action="watchdog.reported",
            jobs=jobs,
            unconfirmed=unconfirmed,
        )

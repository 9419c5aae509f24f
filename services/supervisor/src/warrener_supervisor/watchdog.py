"""Find jobs whose time has come and report them to the judge by the status exchange."""

from collections.abc import Iterable
from datetime import datetime

from warrener_contracts.messages import batch_messages, build_message
from warrener_contracts.state_machine import JobState
from warrener_runtime.logs import get_logger
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import START_TIMEOUT_REPORTED
from warrener_supervisor import effects
from warrener_supervisor.decisions.starts import timeout_check_at
from warrener_supervisor.decisions.timeouts import deadline_event, has_overrun, watchdog_event
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.findings import FindingPublisher

_log = get_logger("watchdog")

_BATCH_SIZE = 500
_WATCHED = (JobState.RUNNING, JobState.RETRYING)


class Watchdog:
    """Reports time limits. A finding that was read without an effect is published again when its claim has
    run out."""

    def __init__(self, ports: SupervisorPorts) -> None:
        self._bus, self._store, self._clock, self._timings = ports
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
            [JobState.QUEUED], now, now + self._timings.renotify_interval, _BATCH_SIZE
        )
        events = [event for row in due if (event := watchdog_event(row, now, self._timings)) is not None]
        messages = batch_messages(map(build_message, events))
        unconfirmed = await effects.publish_once(self._bus, messages) if messages else 0
        _log_reported(len(messages), unconfirmed)
        if due and not unconfirmed:
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


def _log_reported(jobs: int, unconfirmed: int) -> None:
    if jobs:
        _log.info(
            "Due jobs were reported to the judge.",
            action="watchdog.reported",
            jobs=jobs,
            unconfirmed=unconfirmed,
        )

"""Run the clock of all schedules: decide due ticks and publish the requests for their jobs.

Decided and stored, a little ahead → published when due → confirmed → marked. A crash before the last step
leaves a stored tick with its request; the first scheduler that finds it publishes it again, under the same
id, and admission takes it as a duplicate.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from warrener_calendar.zones import database_version
from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.triggers import TriggerRule
from warrener_runtime.clock import Clock, wait_at_most
from warrener_runtime.lifecycle import Loop
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import NO_CONTEXT, LinkTo, Span, Telemetry, TraceContext, names
from warrener_scheduler.decisions.backfill import is_backfilled
from warrener_scheduler.decisions.event_ticks import decide_event_ticks
from warrener_scheduler.decisions.ticks import DECISION_LEAD, PUBLISHED_WITHIN, decide_ticks
from warrener_scheduler.ports import SchedulerPorts
from warrener_scheduler.tick_messages import TraceParts, request_messages, ticked_message
from warrener_store.schedules.rows import Advance, DueSchedule, TickRow

_log = get_logger("clock")

_BATCH_LIMIT = 500
_MAX_SLEEP = 2.0
"""Seconds after which the store is queried again for the next tick: another scheduler may have stored a
schedule, and died before it looked."""
_RETRY_DELAY = timedelta(minutes=1)
_NOTHING = timedelta(0)
_INSTANT = 1e-6  # seconds; a smaller step would be lost in the float of a virtual clock
_CLAIMED_DELAY = 0.05  # seconds to leave to the scheduler that has claimed what is due


class Ticker:
    """Sleeps until the next tick is due, and runs it. Any number of schedulers may run one."""

    def __init__(self, ports: SchedulerPorts, read_secret: Callable[[], Awaitable[str]]) -> None:
        """`read_secret` returns that of the installation."""
        self._ports, self._read_secret, self._secret = ports, read_secret, ""
        _, self._schedules, self._clock, self._telemetry, self._metrics = ports
        self._woken = asyncio.Event()
        self._zone_version = ""

    def wake(self) -> None:
        """Look now: the schedules have changed."""
        self._woken.set()

    async def run_once(self) -> None:
        """Run everything that is due, then sleep until the next tick."""
        self._woken.clear()
        if not self._zone_version:
            await self._schedules.replan_schedules(database_version(), self._clock.now())
            self._zone_version = database_version()
        if not self._secret:
            self._secret = await self._read_secret()
        await self.run_due()
        wake_at = await self._schedules.next_schedule_wake()
        if wake_at is None or wake_at > self._clock.now() or not await self._republish():
            await self._sleep(wake_at)

    async def run_due(self) -> None:
        """Decide and publish everything that is due."""
        while await self._run_batch():
            pass  # more may be due at the same moment

    async def _run_batch(self) -> bool:
        """True if there may be more."""
        now = self._clock.now()
        specs: dict[str, SchedulePutData] = {}

        def decide(due: Sequence[DueSchedule]) -> list[Advance]:
            specs.update((one.row.name, one.row.definition) for one in due)
            return [self._decide(one, now) for one in due]

        await self._publish(await self._schedules.advance_schedules(now, _BATCH_LIMIT, decide), specs)
        return len(specs) >= _BATCH_LIMIT

    def _decide(self, due: DueSchedule, now: datetime) -> Advance:
        """Decide how one schedule goes on. One that we fail at waits, and the others go on."""
        try:
            decide = decide_event_ticks if isinstance(due.row.definition.rule, TriggerRule) else decide_ticks
            return decide(due, now, self._zone_version, self._secret)
        except Exception:  # noqa: BLE001 - one schedule must not stop the others
            _log.exception(
                "A schedule could not be decided; it is tried again in a minute.",
                action="ticks.bug",
                schedule=due.row.name,
            )
            return Advance(replace(due.row, wake_at=now + _RETRY_DELAY))

    async def _republish(self) -> bool:
        """Publish triggered, backfilled and overdue ticks; True if there were any.

        A tick is overdue if another scheduler has decided it and not published it in time.
        """
        now = self._clock.now()
        found = await self._schedules.claim_ticks(now, now + PUBLISHED_WITHIN, _BATCH_LIMIT)
        late = sum(tick.status is not TickStatus.TRIGGERED and not is_backfilled(tick) for tick in found)
        if late:
            _log.warning("Ticks are published again.", action="ticks.republished", ticks=late)
        await self._publish(found, {})
        return bool(found)

    async def _publish(self, ticks: Sequence[TickRow], specs: Mapping[str, SchedulePutData]) -> None:
        """Publish the requests of ticks, each as soon as it is due. `specs`: the schedules at hand."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        moments: dict[timedelta, list[TickRow]] = {}
        for tick in ticks:
            # never later than the lead, whatever the clocks of other schedulers say
            early = min(max(tick.due_at - now, _NOTHING), DECISION_LEAD)
            moments.setdefault(early, []).append(tick)
        async with asyncio.TaskGroup() as group:
            for early, due in moments.items():
                group.create_task(self._publish_at(monotonic + early.total_seconds(), due, specs))

    async def _publish_at(
        self, monotonic: float, ticks: Sequence[TickRow], specs: Mapping[str, SchedulePutData]
    ) -> None:
        while (early := monotonic - self._clock.monotonic()) > _INSTANT:  # timers may be early by half a ms
            await self._clock.sleep(early)
        spans = TickSpans(self._telemetry)
        known = [(tick, specs.get(tick.schedule)) for tick in ticks]
        requests = [message for tick, spec in known for message in request_messages(tick, spec, spans.begin)]
        await self._ports.publish([*requests, *map(ticked_message, ticks)])
        spans.finish()
        self._metrics.record_ticks(ticks, self._clock.now())
        fired = [tick.key for tick in ticks if tick.request is not None]
        if fired:
            await self._schedules.mark_ticks(fired, self._clock.now())
        _log.debug("Ticks were decided.", action="ticks.decided", ticks=len(ticks), fired=len(fired))

    async def _sleep(self, wake_at: datetime | None) -> None:
        seconds = _MAX_SLEEP if wake_at is None else (wake_at - self._clock.now()).total_seconds()
        seconds = min(seconds, _MAX_SLEEP) if seconds > 0 else _CLAIMED_DELAY
        await wait_at_most(seconds, self._woken, self._clock)


class TickSpans:
    """The spans of ticks that are published together: each begins a trace."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._open: list[Span] = []

    def begin(self, tick: TickRow, job_type: str, upstream: TraceParts) -> TraceParts:
        """Begin the trace of a tick, with a link to the event that triggered it; return its context."""
        if not self._telemetry.records(None):
            return NO_CONTEXT
        span = self._telemetry.span(
            names.TICK.name(job_type),
            kind=names.TICK.kind,
            links=[LinkTo(TraceContext(*upstream), "upstream")] if upstream[0] else [],
            attributes={
                **names.TICK.constants,
                names.JOB_ID: str(tick.job_id),
                names.JOB_TYPE: job_type,
                names.SCHEDULE: tick.schedule,
                names.NOMINAL_TIME: tick.nominal_at.isoformat(),
                names.MESSAGING_ROUTING_KEY: job_type,
            },
        )
        self._open.append(span)
        return span.context

    def finish(self) -> None:
        """End the spans: the broker has confirmed the requests."""
        for span in self._open:
            span.finish()


class TickerLoop(Loop):
    """Runs the ticker back to back; draining does not wait for the next tick."""

    def __init__(self, ticker: Ticker, clock: Clock) -> None:
        super().__init__("clock", ticker.run_once, every=None, clock=clock, judges_time=True)
        self._ticker = ticker

    async def _on_drain(self) -> None:
        self._leaving = True
        self._ticker.wake()
        await super()._on_drain()

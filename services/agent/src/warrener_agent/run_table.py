"""The attempts that this agent runs: their deliveries, slots, signs of life and deadlines."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any
from uuid import UUID

from warrener_agent.decisions.outcomes import StopCause
from warrener_agent.ledger.port import Claim
from warrener_contracts.events import AttemptDispatchedData, Checkpoint
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock
from warrener_runtime.telemetry import TraceContext

STEP_MARGIN = 0.25  # share of a lease that must be left for a handler to take a further step
_CLOCK_TOLERANCE = 0.001
"""Seconds before a deadline at which it counts as reached, instead of another short sleep."""


@dataclass(eq=False, slots=True)
class DeliveryRef:
    """One delivery. It may carry several events, and is acknowledged when all of them are done."""

    subscription: Subscription
    delivery: Delivery
    queue: str
    open_events: int
    received_at: float
    acknowledged: bool = field(default=False, init=False)
    runs: int = field(default=0, init=False)  # that share its slot now

    @property
    def is_redelivered_batch(self) -> bool:
        """True if it carries several events and was delivered before: one may have ended its agent."""
        return self.delivery.redelivered and self.open_events > 1

    def complete_event(self) -> None:
        self.open_events -= 1

    @property
    def is_due(self) -> bool:
        """True if it can be acknowledged, and was not yet."""
        return self.open_events <= 0 and not self.acknowledged


async def ack_all(delivery_refs: Iterable[DeliveryRef]) -> None:
    """Acknowledge the deliveries that are due, by range where the bus can."""
    due: defaultdict[Subscription, list[Delivery]] = defaultdict(list)
    for delivery_ref in delivery_refs:
        if delivery_ref.is_due:
            delivery_ref.acknowledged = True
            due[delivery_ref.subscription].append(delivery_ref.delivery)
    for subscription, deliveries in due.items():
        await subscription.ack(deliveries)


class HandlerHeartbeat:
    """The signs of life of one attempt, where its job type has a `heartbeat_timeout`.

    A sign of life is one assignment, from any thread. `Deadlines` checks when the silence would be too long,
    and sets a later check if there was a sign.
    """

    __slots__ = ("_last_beat_at", "_now", "timeout", "timeout_at")

    def __init__(self, timeout: float, timeout_at: float, now: Callable[[], float]) -> None:
        """`timeout`: seconds of silence. `timeout_at`: the attempt's own end; monotonic, as `now`."""
        self.timeout, self.timeout_at = timeout, timeout_at
        self._now = now
        self._last_beat_at = now()

    def beat(self) -> None:
        self._last_beat_at = self._now()

    @property
    def due(self) -> float:
        """When to check next, as far as is known now."""
        return min(self._last_beat_at + self.timeout, self.timeout_at)

    @property
    def is_expired(self) -> bool:
        """True if silence ended the attempt, and not its own timeout."""
        return self._last_beat_at + self.timeout < self.timeout_at


@dataclass(eq=False, slots=True)
class Run:
    """One attempt that was granted to this agent, until it is reported."""

    data: AttemptDispatchedData
    claim: Claim
    delivery_refs: list[DeliveryRef]
    started_at: datetime
    began_at: float  # monotonic, as lease_expires_at and timeout_at; the moment of started_at
    lease_expires_at: float
    context: TraceContext
    baggage: str | None = None
    announced: bool = False
    may_have_begun: bool = False  # where another ledger is used: its start is announced before it begins
    is_unchecked: bool = False  # its job may have ended: a supervisor checks it before it begins
    held: asyncio.Event | None = None  # it waits for this before it begins
    stop: StopCause | None = None
    stop_reason: str = ""
    is_off_loop: bool = False  # its handler does not run in the event loop, and goes on when that is blocked
    held_after_block: bool = False
    """True if it goes on although a later attempt may wait for its claim: the event loop was blocked while
    its handler worked. A handler that only the end of its process could stop never gives way: two of them
    would work at once."""
    handler_ended: bool = False  # its outcome is being recorded and reported
    handler_ended_at: float = 0.0  # monotonic
    succeeded: bool = False  # so its handler has ended
    timeout_at: float = inf
    heartbeat: HandlerHeartbeat | None = None  # if its job type has a heartbeat_timeout
    checkpoint: Checkpoint | None = None  # the last one of an earlier attempt
    checkpoints: int = 0  # the number of the last one saved
    slot: DeliveryRef | None = None  # the delivery by which it has one
    halt: Callable[[], None] | None = None
    """Ends the handler, once there is one."""

    def resume_from(self, checkpoint: Checkpoint) -> None:
        """Set the checkpoint from which the handler may go on. Call it before the run begins."""
        self.checkpoint, self.checkpoints = checkpoint, checkpoint.number

    def outlives(self, delay: float, now: float) -> bool:
        """True if the handler has run for so long, or its report takes so long: others should know of it."""
        return now - (self.handler_ended_at if self.handler_ended else self.began_at) >= delay

    def lease_ended(self, monotonic: Callable[[], float], margin: float = 0.0) -> bool:
        """True if the lease ends within `margin` seconds, or has ended: another agent may run it then."""
        return monotonic() > self.lease_expires_at - margin

    @property
    def is_held(self) -> bool:
        """True if its handler waits for the answer of a supervisor."""
        return self.held is not None and not self.held.is_set()

    def request_stop(self, why: StopCause, reason: str) -> None:
        """Stop the handler as soon as it can be stopped; the first reason counts."""
        if self.stop is None:
            self.stop, self.stop_reason = why, reason
            self.interrupt()

    def interrupt(self) -> None:
        if self.halt is not None:
            self.halt()


class RunTable:
    """The table of runs, and the slots that they take: runs of one delivery share one."""

    def __init__(self, slots: int) -> None:
        self.slots = self.allowed = slots  # `allowed`: those that it takes now; a starved agent takes fewer
        self._runs: dict[Claim, Run] = {}
        self._latest: dict[UUID, Run] = {}
        self._taken: Counter[str] = Counter()
        self._aside: set[Claim] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, claim: Claim) -> Run | None:
        return self._runs.get(claim)

    def earlier_run(self, claim: Claim) -> Run | None:
        """Return the run of an earlier attempt of the same job, if its handler has not ended, or its success
        is not recorded yet."""
        latest = self._latest.get(claim.job_id)
        if latest is None or latest.claim.attempt >= claim.attempt:
            return None
        return latest if latest.succeeded or not latest.handler_ended else None

    def free(self, queue: str) -> int:
        """Return how many more attempts of a queue the agent takes; below 0 if a starved one has too many."""
        return self.allowed - self._taken[queue]

    def room(self, queue: str) -> int:
        """Return for how many messages of a queue there is room, whatever was delivered before."""
        return self.slots if self.allowed == self.slots else self.free(queue)

    def used(self, queue: str) -> int:
        return self._taken[queue]

    def add(self, run: Run, *, takes_slot: bool = True) -> None:
        """Add a run; it takes a slot now, or later by `take_slot`."""
        data = run.data
        self._latest[data.job_id] = run
        self._runs[run.claim] = run
        if takes_slot:
            self.take_slot(run, run.delivery_refs[0])
        self._empty.clear()

    def take_slot(self, run: Run, slot: DeliveryRef) -> None:
        """Give a run the slot of a delivery: its own, or that of the first of a gathered run."""
        run.slot = slot
        self._share(slot)

    def remove(self, run: Run) -> None:
        """Remove a reported run; its slot is free, unless other runs share it."""
        if self._runs.get(run.claim) is run:
            del self._runs[run.claim]
            self._aside.discard(run.claim)
            if run.slot is not None:
                self._leave(run.slot)
        if self._latest.get(run.data.job_id) is run:
            del self._latest[run.data.job_id]
        self._note_empty()

    def set_aside(self, run: Run) -> None:
        """Let a drain not wait for this run: its outcome is recorded and cannot be published yet."""
        if self._runs.get(run.claim) is run:
            self._aside.add(run.claim)
            self._note_empty()

    def _note_empty(self) -> None:
        if len(self._runs) == len(self._aside):
            self._empty.set()

    def abandon(self, run: Run, gone: asyncio.Future[Any]) -> None:
        """Keep the slot of a handler that could not be stopped until `gone` is done."""
        slot = run.slot
        assert slot is not None, "its handler has begun"
        self._share(slot)
        gone.add_done_callback(lambda _: self._leave(slot))

    def _share(self, slot: DeliveryRef) -> None:
        slot.runs += 1
        if slot.runs == 1:
            self._taken[slot.queue] += 1

    def _leave(self, slot: DeliveryRef) -> None:
        slot.runs -= 1
        if not slot.runs:
            self._taken[slot.queue] -= 1

    async def empty(self) -> None:
        """Wait until nothing runs but what was set aside."""
        while len(self._runs) > len(self._aside):
            self._empty.clear()
            await self._empty.wait()


class Deadlines:
    """Interrupts each run that has run or been silent for too long. One sleep, until the earliest of them."""

    def __init__(self, running: RunTable, clock: Clock) -> None:
        self._running, self._clock = running, clock
        self._sleeper: asyncio.Task[None] | None = None
        self._until = inf

    def watch(self, run: Run, timeout_at: float) -> None:
        """Interrupt `run` at this monotonic moment, if it still runs then."""
        run.timeout_at = timeout_at
        if timeout_at < self._until:
            self.close()
            self._until = timeout_at
            self._sleeper = asyncio.create_task(self._sleep(), name="deadlines")

    def close(self) -> None:
        if self._sleeper is not None:
            self._sleeper.cancel()
        self._sleeper, self._until = None, inf

    async def _sleep(self) -> None:
        while self._until < inf:
            await self._clock.sleep(max(0.0, self._until - self._clock.monotonic()))
            now = self._clock.monotonic() + _CLOCK_TOLERANCE
            for run in self._running:
                if run.timeout_at > now:
                    continue
                if run.heartbeat is not None and run.heartbeat.due > now:  # a sign of life came
                    run.timeout_at = run.heartbeat.due
                else:
                    run.timeout_at = inf
                    run.interrupt()
            self._until = min((run.timeout_at for run in self._running), default=inf)

"""What this agent runs now."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import inf
from uuid import UUID

from warrener_agent.delivery_refs import DeliveryRef
from warrener_agent.handler_heartbeat import HandlerHeartbeat
from warrener_agent.ledger.port import Claim
from warrener_contracts.events import AttemptDispatchedData, Checkpoint
from warrener_runtime.telemetry import TraceContext

STEP_MARGIN = 0.25
"""The share of a lease before its end from which on a handler takes no further step."""


class StopCause(StrEnum):
    """Why a run is stopped from outside."""

    CANCELLED = "cancelled"  # somebody asked
    FENCED = "fenced"  # the claim is lost, or could not be renewed in time
    DRAINED = "drained"  # the agent ends


@dataclass(eq=False, slots=True)
class Run:
    """One attempt that was granted to this agent, until it is reported."""

    data: AttemptDispatchedData
    claim: Claim
    delivery_refs: list[DeliveryRef]
    started_at: datetime
    began_at: float  # monotonic, as lease_good_until and over_at; the moment of started_at
    lease_expires_at: float
    context: TraceContext
    announced: bool = False
    taken_over: bool = False  # another may have begun it: who runs it now is said at once
    stop: StopCause | None = None
    stop_reason: str = ""
    is_off_loop: bool = False  # its handler does not run in the event loop, and goes on when that is blocked
    even_awaited: bool = False  # it goes on although a later attempt may wait for its claim
    handler_ended: bool = False  # its handler has ended; what became of it is being recorded and reported
    succeeded: bool = False  # so its handler has ended
    timeout_at: float = inf
    heartbeat: HandlerHeartbeat | None = None  # where silence is watched
    checkpoint: Checkpoint | None = None  # what was saved before it began
    checkpoints: int = 0  # the number of the last one saved
    slot: DeliveryRef | None = None  # the delivery by which it has one
    halt: Callable[[], None] | None = None
    """Ends the handler, once there is one: it is asked to stop, or its time is over."""

    def resume_from(self, checkpoint: Checkpoint) -> None:
        """Before it begins: this was saved last."""
        self.checkpoint, self.checkpoints = checkpoint, checkpoint.number

    def lease_ended(self, monotonic: Callable[[], float], margin: float = 0.0) -> bool:
        """True if the lease was not renewed until `margin` seconds before its end: another agent may run it
        then."""
        return monotonic() > self.lease_expires_at - margin

    def is_recent_takeover(self, now: float, lease: float) -> bool:
        """True for a lease after this agent has taken the attempt over from another one.

        A later attempt that shows up within that time follows from the loss of the former holder, which the
        supervisor was about to declare; it takes longer than a lease to declare the loss of this agent.
        """
        return self.taken_over and now - self.began_at < lease

    def request_stop(self, why: StopCause, reason: str) -> None:
        """Stop it as soon as it can be stopped; the first reason counts."""
        if self.stop is None:
            self.stop, self.stop_reason = why, reason
            self.interrupt()

    def interrupt(self) -> None:
        """Let its handler be ended, whatever the reason."""
        if self.halt is not None:
            self.halt()


class RunTable:
    """The table of runs, and the slots that they take: those of one delivery share one."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
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
        """The run of this attempt, if it runs here."""
        return self._runs.get(claim)

    def earlier_run(self, claim: Claim) -> Run | None:
        """The run of an earlier attempt of the same job, if its handler has not ended, or its success is not
        recorded yet."""
        latest = self._latest.get(claim.job_id)
        if latest is None or latest.claim.attempt >= claim.attempt:
            return None
        return latest if latest.succeeded or not latest.handler_ended else None

    def free(self, queue: str) -> int:
        """How many slots of a queue are free."""
        return self.slots - self._taken[queue]

    def add(self, run: Run) -> None:
        """It takes a slot."""
        data = run.data
        self._latest[data.job_id] = run
        self._runs[run.claim] = run
        run.slot = run.delivery_refs[0]
        self._share(run.slot)
        self._empty.clear()

    def remove(self, run: Run) -> None:
        """It is reported: its slot is free, unless others share it."""
        if self._runs.get(run.claim) is run:
            del self._runs[run.claim]
            self._aside.discard(run.claim)
            self._leave(run.slot)
        if self._latest.get(run.data.job_id) is run:
            del self._latest[run.data.job_id]
        self._note_empty()

    def set_aside(self, run: Run) -> None:
        """Its outcome is recorded and cannot be published yet: a drain does not wait for it."""
        if self._runs.get(run.claim) is run:
            self._aside.add(run.claim)
            self._note_empty()

    def _note_empty(self) -> None:
        if len(self._runs) == len(self._aside):
            self._empty.set()

    def abandon(self, run: Run, gone: asyncio.Task[None]) -> None:
        """A handler that could not be stopped keeps its part of its slot until it ends."""
        slot = run.slot
        self._share(slot)
        gone.add_done_callback(lambda _: self._leave(slot))

    def _share(self, slot: DeliveryRef | None) -> None:
        assert slot is not None, "it has one since it was added"
        slot.runs += 1
        if slot.runs == 1:
            self._taken[slot.queue] += 1

    def _leave(self, slot: DeliveryRef | None) -> None:
        assert slot is not None, "it has one since it was added"
        slot.runs -= 1
        if not slot.runs:
            self._taken[slot.queue] -= 1

    async def empty(self) -> None:
        """Wait until nothing runs but what was set aside."""
        while len(self._runs) > len(self._aside):
            self._empty.clear()
            await self._empty.wait()

"""What this agent runs now."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from warrener_agent.ledger.port import Claim
from warrener_agent.receipts import Receipt
from warrener_contracts.events import AttemptDispatched, AttemptDispatchedData
from warrener_runtime.telemetry import TraceContext


class Stop(StrEnum):
    """Why a run is stopped from outside."""

    CANCELLED = "cancelled"  # somebody asked
    FENCED = "fenced"  # the claim is lost, or could not be renewed in time
    DRAINED = "drained"  # the agent ends


@dataclass(eq=False, slots=True)
class Run:
    """One attempt that was granted to this agent, until it is reported."""

    event: AttemptDispatched
    receipts: list[Receipt]
    started_at: datetime
    began: float  # monotonic, as the next one
    lease_good_until: float
    context: TraceContext
    announced: bool = False
    stop: Stop | None = None
    stop_reason: str = ""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def data(self) -> AttemptDispatchedData:
        return self.event.data

    @property
    def claim(self) -> Claim:
        return Claim(self.event.data.job_id, self.event.data.attempt)

    def ask_to_stop(self, why: Stop, reason: str) -> None:
        """Stop it as soon as it can be stopped; the first reason counts."""
        if self.stop is None:
            self.stop, self.stop_reason = why, reason
            self.stopping.set()


class Running:
    """The table of runs, and the slots that they take."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._runs: dict[Claim, Run] = {}
        self._latest: dict[UUID, Run] = {}
        self._abandoned: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, claim: Claim) -> Run | None:
        """The run of this attempt, if it runs here."""
        return self._runs.get(claim)

    def free(self, queue: str) -> int:
        """How many slots of a queue are free."""
        taken = sum(run.data.queue == queue for run in self._runs.values())
        return self.slots - taken - self._abandoned[queue]

    def add(self, run: Run) -> None:
        """It takes a slot. An older attempt of the same job that still runs here has lost its claim to it."""
        other = self._latest.get(run.data.job_id)
        if other is not None and other.data.attempt < run.data.attempt:
            other.ask_to_stop(Stop.FENCED, f"attempt {run.data.attempt} was granted")
        self._latest[run.data.job_id] = run
        self._runs[run.claim] = run

    async def remove(self, run: Run) -> None:
        """It is reported: its slot is free."""
        if self._runs.get(run.claim) is run:
            del self._runs[run.claim]
        if self._latest.get(run.data.job_id) is run:
            del self._latest[run.data.job_id]
        async with self._changed:
            self._changed.notify_all()

    def abandon(self, queue: str, gone: asyncio.Task[None]) -> None:
        """A handler that could not be stopped keeps a slot until it ends."""
        self._abandoned[queue] += 1
        gone.add_done_callback(lambda _: self._abandoned.subtract([queue]))

    async def empty(self) -> None:
        """Wait until nothing runs."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._runs)

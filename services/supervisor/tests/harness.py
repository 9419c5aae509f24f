"""A supervisor's surroundings in memory; everything it publishes is captured."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from services.supervisor.tests.event_factory import JOB, NOW
from tests.captured_service import CapturedService

from warrener_contracts import topology
from warrener_contracts.events import Event
from warrener_contracts.topology import Binding, Queue
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock
from warrener_store.jobs.rows import JobRow
from warrener_store.memory import MemoryStore
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import assemble

_RECORDING_QUEUES = (
    Queue("ear.events", (Binding(topology.EVENTS, "#"),)),
    Queue("ear.control", (Binding(topology.CONTROL, "#"),)),
    Queue("ear.status", (Binding(topology.STATUS, "#"),)),
    Queue("ear.attempts", (Binding(topology.DISPATCH, "default.#"), Binding(topology.RETURN, "*.default.#"))),
)


@asynccontextmanager
async def opened(
    *rows: JobRow, store: MemoryStore | None = None, settings: SupervisorSettings | None = None
) -> AsyncGenerator["SupervisorHarness"]:
    """A supervisor with these jobs in its store; it is closed at the end."""
    harness = SupervisorHarness(store, settings)
    await harness.open(*rows)
    yield harness
    await harness.close()


class SupervisorHarness(CapturedService):
    """A supervisor on a memory broker and a memory store, at the time `NOW`."""

    def __init__(self, store: MemoryStore | None = None, settings: SupervisorSettings | None = None) -> None:
        super().__init__("warrener-supervisor", _RECORDING_QUEUES, VirtualClock(NOW), store)
        settings = settings or SupervisorSettings()
        self.component = assemble(
            self.bus, self.store, self.clock, SeededEntropy(1), self.telemetry, settings
        )

    async def open(self, *rows: JobRow) -> None:
        await self.store.insert_jobs(rows)
        await self.start()

    async def row(self) -> JobRow:
        return (await self.store.jobs_by_id([JOB]))[JOB]

    def addresses(self, exchange: str) -> list[str]:
        """The routing keys of what was published there."""
        return [delivery.routing_key for delivery in self.received.get(exchange, [])]

    def dispatched(self) -> list[Event[Any]]:
        """What reached the agents' queue, straight or by a delay queue."""
        return self.published(topology.DISPATCH, topology.RETURN)

"""A warren that lives for a year in one process: a scheduler, a supervisor and an agent, on a broker, a store
and a ledger in memory. Nothing breaks in it; time leaps over what is idle."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Self

from tests.simulation.checked_store import WatchedStore
from tests.simulation.memory_ledger import MemoryLedger

from warrener_agent import Agent, JobContext
from warrener_agent.settings import AgentSettings
from warrener_agent.wiring import assemble as assemble_agent
from warrener_contracts.events import SchedulePut, SchedulePutData
from warrener_contracts.messages import build_message
from warrener_contracts.topology import TOPOLOGY
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.publishing import publish_all
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.wiring import assemble as assemble_scheduler
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import assemble as assemble_supervisor

JOB_TYPE = "note"
_LEAP = 3000.0  # seconds; shorter than the lease, so that nobody who was asleep seems lost
_REST = 0.05


class Year:
    """`async with Year(begin) as year`: all services, and a clock to move on."""

    def __init__(self, begin: datetime) -> None:
        self.clock = VirtualClock(begin)
        self.store = WatchedStore()
        self.runs = Counter[str]()
        self._broker = MemoryBroker(self.clock)
        self._producer = MemoryBus(self._broker, name="producer")
        agent = Agent()

        @agent.job(JOB_TYPE)
        async def note(job: JobContext) -> None:
            self.runs[str(job.job_id)] += 1

        del note  # served under its name
        self._buses = [MemoryBus(self._broker, name=name) for name in ("scheduler", "supervisor", "agent")]
        parts = (self.clock, SeededEntropy(1), Telemetry.disabled())
        scheduler, supervisor, served = self._buses
        self._components = [
            assemble_scheduler(
                scheduler, self.store, *parts, SchedulerSettings(scheduler_prune_interval=None)
            ),
            assemble_supervisor(
                supervisor,
                self.store,
                *parts,
                SupervisorSettings(supervisor_agent_timeout=3600, supervisor_watchdog_interval=60),
            ),
            assemble_agent(agent, served, MemoryLedger(), *parts, AgentSettings(agent_slots=100)),
        ]

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._producer.declare(TOPOLOGY)
        for bus, component in zip(self._buses, self._components, strict=True):
            await bus.start()
            await component.start()
        await self.clock.settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        for bus, component in zip(self._buses, self._components, strict=True):
            await component.stop()
            await bus.close()
        await self._producer.close()
        self._broker.stop()

    async def put(self, schedules: list[SchedulePutData]) -> None:
        """As a producer does."""
        events = [SchedulePut(id=one.name, source="year", data=one) for one in schedules]
        await publish_all(self._producer, [build_message(event) for event in events], clock=self.clock)
        await self.clock.settle()

    async def live_before(self, end: datetime) -> None:
        """From tick to tick, all that are earlier than `end`; the jobs of one are over before the next."""
        end -= timedelta(microseconds=1)
        while (now := self.clock.now()) < end:
            wake = await self.store.next_schedule_wake() or end
            await self.clock.leap(min((min(wake, end) - now).total_seconds(), _LEAP))
            left = (end - self.clock.now()).total_seconds()
            await self.clock.advance(min(left, _REST))  # it was decided ahead, and is due now
            while self.store.live or (await self.store.next_schedule_wake() or end) <= self.clock.now() < end:
                await self.clock.advance(_REST)

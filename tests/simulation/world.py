"""A whole warren in one process: schedulers, supervisors and agents on a broker, a store and a ledger in
memory, in virtual time, where everything may break and every process may die at any call."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Self
from uuid import UUID

from tests.captured_service import events_in
from tests.simulation import handlers
from tests.simulation.checked_store import CheckedStore
from tests.simulation.crash_injection import ProcessLife, crashable, crashable_bus
from tests.simulation.memory_ledger import MemoryLedger

from warrener_agent.identity import new_agent_id
from warrener_agent.settings import AgentSettings
from warrener_agent.wiring import assemble as assemble_agent
from warrener_contracts import topology
from warrener_contracts.events import AttemptCancel, Event
from warrener_contracts.messages import Message
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import Binding, Exchange, Queue, Topology
from warrener_runtime.bus import Bus, Delivery
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.database_clock import DatabaseClock
from warrener_runtime.lifecycle import Component, Group
from warrener_runtime.lifecycle.listener import Listener
from warrener_runtime.publishing import publish_all
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.wiring import assemble as assemble_scheduler
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import assemble as assemble_supervisor

WORK = tuple(
    queue.name
    for queue in (
        topology.REQUESTS_QUEUE,
        topology.STATUS_QUEUE,
        topology.SCHEDULER_COMMANDS,
        topology.SUPERVISOR_COMMANDS,
        topology.DEAD_QUEUE,
        topology.UNROUTABLE_QUEUE,
        topology.dispatch_queue("default"),
    )
)
DELAY_LEVELS = tuple(level.queue for level in topology.DELAY_LEVELS)
_WRONG = (0.0, 0.0, 5.0, -5.0, 60.0, -60.0)
"""Seconds by which the wall clock of a host may be wrong."""
NOTES = "notes"
"""An exchange of producers, for which schedules may wait."""
_EVENT_QUEUE = Queue("ear", (Binding(topology.EVENTS, "#"),))
_CONTROL_QUEUE = Queue("cancels", (Binding(topology.CONTROL, "queue.#"),))


living: ContextVar["Process"] = ContextVar("living")
"""The process to which the current task belongs."""


class HostClock:
    """A host's clock: the wall clock is wrong by `wrong` seconds, and the monotonic one is true."""

    def __init__(self, true: VirtualClock, wrong: float) -> None:
        self._true, self.wrong = true, wrong

    def now(self) -> datetime:
        return self._true.now() + timedelta(seconds=self.wrong)

    def monotonic(self) -> float:
        return self._true.monotonic()

    @property
    def trusted(self) -> bool:
        return True

    async def sleep(self, seconds: float) -> None:
        await self._true.sleep(seconds)


@dataclass
class Process:
    """A service that is started again whenever it has died."""

    name: str
    build: Callable[[Bus, ProcessLife, HostClock], Component]
    clock: HostClock
    life: ProcessLife = field(default_factory=ProcessLife)
    drain_requested: asyncio.Event = field(default_factory=asyncio.Event)
    deaths: int = 0
    departures: int = 0
    task: "asyncio.Task[None] | None" = None


class World:
    """One simulation with one seed: `async with World(seed) as world`."""

    def __init__(
        self,
        seed: int,
        *,
        schedulers: int = 2,
        supervisors: int = 2,
        agents: int = 2,
        rests: Sequence[float] = (0.1, 1.0, 5.0, 20.0, 70.0),
        telemetry: Mapping[str, Telemetry] | None = None,
        separate_ledgers: bool = False,
        early_ack: float | None = None,
    ) -> None:
        """`rests`: the seconds that a dead process may take to come back. `telemetry`: by kind of service.
        `separate_ledgers`: each host has its own, as with SQLite files. `early_ack`: seconds after which
        agents acknowledge what still runs; None: one of two by the seed."""
        self.separate_ledgers: dict[HostClock, MemoryLedger] | None = {} if separate_ledgers else None
        self._rests = rests
        self._telemetry = telemetry or {}
        self.dice = random.Random(seed)
        self.clock = VirtualClock()
        self.entropy = SeededEntropy(seed)
        self.broker = MemoryBroker(self.clock)
        self.store = CheckedStore(self.clock)
        self.ledger = MemoryLedger(self.clock)
        self.workshop = handlers.Workshop(self.clock, random.Random(f"handlers of {seed}"))
        self.workshop.ended_at = self._ended_at
        by_seed = self.dice.choice((900.0, 1.0))
        self.early_ack = by_seed if early_ack is None else early_ack
        self.handlers = handlers.agent
        """What agents can run that start from now on."""
        self.published: list[Event[Any]] = []
        self.cancelled_at: dict[UUID, datetime] = {}
        """When the agents were first told to stop all attempts of a job."""
        self.killed_agents: set[str] = set()
        """The agents that have died, rather than left."""
        clocks = random.Random(f"clocks of {seed}")
        many = (
            ("scheduler", self._scheduler, schedulers),
            ("supervisor", self._supervisor, supervisors),
            ("agent", self._agent, agents),
        )
        self.processes = [
            Process(f"{name}-{n}", build, HostClock(self.clock, clocks.choice(_WRONG)))
            for name, build, number in many
            for n in range(number)
        ]
        self.producer = MemoryBus(self.broker, name="producer")

    async def __aenter__(self) -> Self:
        await self.producer.start()
        await self.producer.declare(topology.TOPOLOGY)
        await self.producer.declare(Topology((Exchange(NOTES),), (_EVENT_QUEUE, _CONTROL_QUEUE)))
        await Listener(self.producer, _EVENT_QUEUE.name, self._record_events, self.clock).start()
        await Listener(self.producer, _CONTROL_QUEUE.name, self._record_cancels, self.clock).start()
        for process in self.processes:
            process.task = asyncio.create_task(self._live(process), name=process.name)
        await self.clock.advance(1)
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [process.task for process in self.processes if process.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.producer.close()
        self.broker.stop()

    # -- what happens in it ---------------------------------------------------------------------------------

    async def publish(self, *messages: Message) -> None:
        """As a producer: until the broker has confirmed. Needs the clock to move if the broker is away."""
        await publish_all(self.producer, messages, clock=self.clock)

    async def _record_events(self, delivery: Delivery) -> None:
        self.published += events_in([delivery])

    async def _record_cancels(self, delivery: Delivery) -> None:
        for event in events_in([delivery]):
            if isinstance(event, AttemptCancel) and event.data.attempt is None:
                self.cancelled_at.setdefault(event.data.job_id, self.clock.now())

    def _ended_at(self, job_id: UUID) -> datetime | None:
        """When a job ended; of one that was cancelled from outside, when the agents could know."""
        row = self.store.jobs.get(job_id)
        if row is None or row.finished_at is None:
            return None
        if row.state is not JobState.CANCELLED:
            return row.finished_at
        if row.cancel_reason is None or row.cancel_reason.startswith("by its handler"):
            return row.finished_at
        published_at = self.cancelled_at.get(job_id)
        return published_at and max(row.finished_at, published_at)

    def settled(self) -> bool:
        """Whether every job is over and no message waits anywhere (invariant I11)."""
        if self.store.live:  # the cheapest question first: each step of a simulation puts it
            return False
        idle = not any(self.broker.ready(queue) for queue in (*WORK, *DELAY_LEVELS))
        return idle and all(row.state.terminal for row in self.store.jobs.values())

    def process(self, kind: str) -> Process:
        """The first process of this kind."""
        return next(process for process in self.processes if process.name.startswith(kind))

    # -- its processes --------------------------------------------------------------------------------------

    async def _live(self, process: Process) -> None:
        living.set(process)
        while True:
            process.life = ProcessLife()
            process.drain_requested.clear()
            role = process.name.partition("-")[0]
            metrics = self._telemetry_of(role).metrics
            user = "guest" if role == "supervisor" else role  # as its settings say
            bus = MemoryBus(self.broker, name=process.name, metrics=metrics, user_id=user)
            component = process.build(crashable_bus(bus, process.life), process.life, process.clock)
            running = asyncio.create_task(_run(bus, component, process.drain_requested))
            dying = asyncio.create_task(process.life.dead.wait())
            try:
                await asyncio.wait({running, dying}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
                    process.departures += 1
                else:
                    process.deaths += 1
                    self.killed_agents.add(process.life.agent_id)
            finally:
                process.life.dead.set()  # it can do nothing more, whatever its stopping tries
                running.cancel()
                dying.cancel()
                await bus.close()
                await component.stop()
            await self.clock.sleep(self.dice.choice(self._rests))

    def _telemetry_of(self, kind: str) -> Telemetry:
        return self._telemetry.get(kind) or Telemetry.disabled()

    def _scheduler(self, bus: Bus, life: ProcessLife, host: HostClock) -> Component:
        clock, store = DatabaseClock(self.store.time, local=host), crashable(self.store, life)
        parts = clock, self.entropy, self._telemetry_of("scheduler")
        return Group(clock.component(), assemble_scheduler(bus, store, *parts, _SCHEDULER_SETTINGS))

    def _supervisor(self, bus: Bus, life: ProcessLife, host: HostClock) -> Component:
        clock, store = DatabaseClock(self.store.time, local=host), crashable(self.store, life)
        parts = clock, self.entropy, self._telemetry_of("supervisor")
        return Group(clock.component(), assemble_supervisor(bus, store, *parts, _SUPERVISOR_SETTINGS))

    def _agent(self, bus: Bus, life: ProcessLife, host: HostClock) -> Component:
        # With an early acknowledgement the claim alone owns what runs: then only the watchdog can save it.
        settings = _agent_settings(self.early_ack)
        ledger = self.ledger
        if self.separate_ledgers is not None:
            ledger = self.separate_ledgers.setdefault(host, MemoryLedger(self.clock))
        ledger = crashable(ledger, life)
        clock = DatabaseClock(self.ledger.time, local=host)
        parts = clock, self.entropy, self._telemetry_of("agent")
        life.agent_id = new_agent_id(self.entropy)
        agent = assemble_agent(
            self.handlers, bus, ledger, *parts, settings, agent_id=life.agent_id, is_time_virtual=True
        )
        return Group(clock.component(), agent)


# Settings are read from the environment, which takes a twentieth of a simulation.
_SCHEDULER_SETTINGS = SchedulerSettings(
    scheduler_dispatch_interval=1.0,
    scheduler_queues=("defualt", "full"),
    scheduler_trigger_exchanges={NOTES: ["note.*", "burst"]},
)
_SUPERVISOR_SETTINGS = SupervisorSettings(supervisor_watchdog_interval=1.0)


@cache
def _agent_settings(early_ack: float) -> AgentSettings:
    return AgentSettings(agent_slots=4, agent_early_ack=early_ack)


async def _run(bus: Bus, component: Component, drain_requested: asyncio.Event) -> None:
    """Start, live until told to leave, and finish what runs."""
    await bus.start()
    await component.start()
    await drain_requested.wait()
    await component.drain()

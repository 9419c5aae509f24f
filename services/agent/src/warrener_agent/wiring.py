"""The composition root: which parts an agent has, and in which order they start and drain."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from warrener_agent.agent import Agent
from warrener_agent.announce import Announcer
from warrener_agent.blocked import BlockedWatch
from warrener_agent.checkpoints import PACE, CheckpointLine
from warrener_agent.control import Control
from warrener_agent.executors.command import CommandExecutor
from warrener_agent.executors.coroutine import CoroutineExecutor
from warrener_agent.executors.port import Executor
from warrener_agent.executors.process import ProcessExecutor
from warrener_agent.executors.restarts import Intensity, Restarts
from warrener_agent.executors.thread import ThreadExecutor
from warrener_agent.gate import Gate
from warrener_agent.identity import folder_beside, fresh_id, take_identity
from warrener_agent.kinds import ExecutorName
from warrener_agent.leases import Leases, start_patiently
from warrener_agent.ledger import Ledger, open_ledger
from warrener_agent.listening import Ear
from warrener_agent.outbox import AgentOutbox
from warrener_agent.perform import Performer
from warrener_agent.presence import Door, Farewell, Presence
from warrener_agent.progress import ProgressLine
from warrener_agent.receive import Receiver
from warrener_agent.report import Reporter
from warrener_agent.running import Running
from warrener_agent.settings import AgentSettings
from warrener_agent.status_events import Speaker
from warrener_agent.workplace import Workplace
from warrener_contracts.topology import dispatch_queue
from warrener_runtime.bus import Bus, open_bus
from warrener_runtime.clock import Clock, Entropy, SystemEntropy
from warrener_runtime.database_clock import DatabaseClock
from warrener_runtime.lifecycle import Component, Consumer, Group, Loop, Resource, Service
from warrener_runtime.settings import SettingsError
from warrener_runtime.telemetry import Telemetry


def assemble(  # noqa: PLR0917 - the parts that every service is assembled from, in the order they all share
    agent: Agent,
    bus: Bus,
    ledger: Ledger,
    clock: Clock,
    entropy: Entropy,
    telemetry: Telemetry,
    settings: AgentSettings,
    *,
    agent_id: str | None = None,
    restarts: Restarts | None = None,
    end_process: Callable[[int], Any] | None = None,
) -> Component:
    """An agent that serves `agent`; `bus` and `ledger` are started by the caller. `end_process` is called
    with an exit code if the event loop is blocked for good; None lets it be.

    The parts drain in reverse order: first nothing is received any more, then what runs ends and is reported,
    and leases are renewed and heartbeats sent until that is done.
    """
    agent_id = agent_id or fresh_id(entropy)
    at = Workplace(
        agent_id=agent_id,
        queues=_queues(agent, settings),
        bus=bus,
        ledger=ledger,
        clock=clock,
        entropy=entropy,
        settings=settings,
        running=Running(settings.agent_slots),
        speaker=Speaker(agent_id),
        gate=Gate({kind.name: kind.declaration.policy for kind in agent.kinds.values()}),
        restarts=restarts or restarts_of(settings, clock),
    )
    parts = _parts(at, agent, telemetry)
    if end_process is None or not settings.agent_blocked_after:
        return parts
    return Group(BlockedWatch(at, end_process), parts, name="agent under watch")


def _parts(at: Workplace, agent: Agent, telemetry: Telemetry) -> Component:
    outbox, progress = AgentOutbox(at), ProgressLine(at)
    reporter = Reporter(at, outbox)
    checkpoints, executors = CheckpointLine(at), _executors(at.restarts)
    performer = Performer(
        at, agent.kinds, executors, reporter, progress, checkpoints=checkpoints, telemetry=telemetry
    )
    receiver = Receiver(at, performer, reporter, outbox)
    consumers = [_consumer(at, receiver, queue) for queue in at.queues]
    presence = Presence(at, lambda: all(consumer.live or consumer.is_paused for consumer in consumers))
    control, leases = Control(at, presence), Leases(at, lambda: presence.silent)
    every, lease = partial(Loop, clock=at.clock), at.settings.agent_lease
    return Group(
        Farewell(presence),
        outbox,
        Announcer(at, outbox, agent.kinds.values(), agent.schedules),
        Ear(at.bus, at.ear.name, control.hear),
        every("heartbeats", presence.beat, every=at.settings.agent_heartbeat),
        every("leases", leases.renew, every=lease * 0.3),
        every("leases of a silent agent", leases.give_way, every=lease * 0.05),
        every("lease watch", leases.watch, every=lease * 0.05),
        every("forgetting", leases.forget, every=3600.0),
        reporter,
        progress,
        every("checkpoints", checkpoints.save_due, every=PACE),
        every("starts", progress.announce_due, every=0.25),
        performer,
        *consumers,
        Door(presence),
        name="agent",
    )


def _consumer(at: Workplace, receiver: Receiver, queue: str) -> Consumer:
    # As many unacknowledged as slots: what waits, waits in the queue, where another agent can take it.
    return Consumer(
        f"attempts of {queue}",
        at.bus,
        dispatch_queue(queue).name,
        at.settings.agent_slots,
        partial(receiver.handle, queue),
        clock=at.clock,
        probe=at.ledger.ping,
    )


async def production(agent: Agent, settings: AgentSettings, telemetry: Telemetry) -> Service:
    """An agent on the broker and the ledger that the settings name."""
    if not agent.kinds:
        raise SettingsError(["expected at least one job type, got none; declare one with @agent.job(...)"])
    entropy = SystemEntropy()
    try:
        ledger = open_ledger(settings.ledger_url)
    except ValueError as error:
        raise SettingsError([f"WARRENER_LEDGER_URL: {error}"]) from error
    clock = DatabaseClock(ledger.time)
    restarts = restarts_of(settings, clock)
    bus = open_bus(
        settings.broker_url, name="warrener-agent", lane=settings.lane, namespace=settings.namespace
    )
    folder = settings.agent_folder or folder_beside(settings.ledger_url)
    identity = take_identity(folder, _queues(agent, settings), entropy)
    component = Group(
        Resource("identity", _nothing, identity.release),
        Resource("ledger", partial(start_patiently, ledger, clock), ledger.close),
        clock.component(),
        Resource("bus", bus.start, bus.close),
        assemble(
            agent,
            bus,
            ledger,
            clock,
            entropy,
            telemetry,
            settings,
            agent_id=identity.agent_id,
            restarts=restarts,
            end_process=os._exit,  # what is blocked cannot end in a tidier way
        ),
        name="agent and what it stands on",
    )
    checks = {
        "broker": bus.ping,
        "ledger": ledger.ping,
        "clock": clock.check,
        "executors": restarts.check,
    }
    return Service(component, ready=checks)


def restarts_of(settings: AgentSettings, clock: Clock) -> Restarts:
    """How often processes may die, by the settings."""
    return Restarts(
        clock, Intensity(settings.agent_deaths, settings.agent_deaths_within, settings.agent_hold)
    )


def _executors(restarts: Restarts) -> dict[ExecutorName, Executor]:
    return {
        "coroutine": CoroutineExecutor(),
        "thread": ThreadExecutor(),
        "process": ProcessExecutor(restarts),
        "command": CommandExecutor(restarts),
    }


def _queues(agent: Agent, settings: AgentSettings) -> tuple[str, ...]:
    """What it serves: as it was told, or else what its job types declare."""
    return settings.agent_queues or tuple(sorted({kind.declaration.queue for kind in agent.kinds.values()}))


async def _nothing() -> None:
    """It is taken already."""

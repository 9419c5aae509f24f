"""The composition root: the parts of an agent, in the order in which they start and drain."""

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from warrener_agent.agent import Agent
from warrener_agent.agent_context import AgentContext
from warrener_agent.attempt import AttemptRunner
from warrener_agent.decisions.intake import BreakerFilter
from warrener_agent.definitions.job import ExecutorName
from warrener_agent.executors.base import Executor
from warrener_agent.executors.command import CommandExecutor
from warrener_agent.executors.in_agent import CoroutineExecutor, ThreadExecutor
from warrener_agent.executors.isolated import RestartLimit, Restarts
from warrener_agent.executors.process import ProcessExecutor
from warrener_agent.executors.workflow import WorkflowExecutor
from warrener_agent.heartbeat import Announcer, ControlHandler, Heartbeater, ReadyGate
from warrener_agent.identity import acquire_identity, default_identity_folder, find_code_version, new_agent_id
from warrener_agent.leases import LeaseKeeper
from warrener_agent.ledger import open_ledger
from warrener_agent.ledger.port import PROCESS_MARK, Ledger
from warrener_agent.log_publisher import LogPublisher
from warrener_agent.loop_watchdog import LoopWatchdog
from warrener_agent.metrics import AgentMetrics
from warrener_agent.outbox import AgentOutbox
from warrener_agent.private_payloads import encrypt_schedules
from warrener_agent.progress import SAVE_INTERVAL, CheckpointSaver, ProgressPublisher
from warrener_agent.receive import Receiver
from warrener_agent.report import Reporter
from warrener_agent.run_table import RunTable
from warrener_agent.settings import AgentSettings
from warrener_agent.start_gate import StartGate
from warrener_agent.status_events import EventFactory
from warrener_contracts.registry import build_models
from warrener_contracts.topology import REQUESTS, dispatch_queue
from warrener_runtime.bus import Bus
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock, Entropy, SystemEntropy
from warrener_runtime.keys import load_key_ring
from warrener_runtime.lifecycle import Component, Consumer, Group, Loop, ManagedComponent, Resource
from warrener_runtime.lifecycle.listener import Listener
from warrener_runtime.lifecycle.run import Service, on_broker_and_database
from warrener_runtime.settings import SettingsError
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.telemetry.metrics import Metrics

build_models()  # before the first message, and once for all forked processes

NAME = "warrener-agent"
_MAX_PREFETCH = 2_000  # messages of a queue of gathered jobs that one agent holds
_METER_INTERVAL = 5.0  # seconds; handlers' modules may set a meter provider at any time


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
    end_process: Callable[[int], Any] | None = None,
    is_time_virtual: bool = False,
) -> Component:
    """Assemble an agent that serves `agent`; the caller starts `bus` and `ledger`.

    `end_process` is called with an exit code if the event loop is blocked for good; None: no watchdog.
    `is_time_virtual`: turns of workflows take no time, as a clock that is set by hand waits for no thread.

    The parts drain in reverse order: first nothing is received, then the running attempts end and are
    reported; leases are renewed and heartbeats sent until that is done.
    """
    agent_id, queues = agent_id or new_agent_id(entropy), _queues(agent, settings)
    telemetry.identify(agent_id)
    context = AgentContext(
        agent_id=agent_id,
        holder_id=f"{agent_id}{PROCESS_MARK}{entropy.new_id().hex[-8:]}",
        queues=queues,
        bus=bus,
        ledger=ledger,
        clock=clock,
        entropy=entropy,
        settings=settings,
        running=RunTable(settings.agent_slots),
        event_factory=EventFactory(agent_id, entropy),
        breaker_filter=BreakerFilter(
            {definition.name: definition.declaration.policy for definition in agent.definitions.values()},
            queues,
        ),
        code_version=settings.version
        or find_code_version(definition.handler.__module__ for definition in agent.definitions.values()),
        codec=load_key_ring(settings.encryption_keys_file),
        restarts=Restarts(
            clock,
            RestartLimit(
                settings.agent_crash_loop_limit,
                settings.agent_crash_loop_window,
                settings.agent_crash_loop_pause,
            ),
        ),
        metrics=AgentMetrics(telemetry.metrics, queues),
    )
    context.metrics.watch_slots(context.running)
    parts = _parts(context, agent, telemetry, WorkflowExecutor(clock, joins_threads=is_time_virtual))
    if end_process is None or not settings.agent_block_timeout:
        return parts
    return Group(LoopWatchdog(context, end_process), parts, name="agent under watch")


def _parts(
    context: AgentContext, agent: Agent, telemetry: Telemetry, workflows: WorkflowExecutor
) -> Component:
    outbox, progress = AgentOutbox(context), ProgressPublisher(context)
    reporter = Reporter(context, outbox, telemetry)
    checkpoints, logs = CheckpointSaver(context), LogPublisher(context)
    executors: dict[ExecutorName, Executor] = {
        "coroutine": CoroutineExecutor(),
        "thread": ThreadExecutor(),
        "process": ProcessExecutor(
            context.restarts,
            log_level=context.settings.scope_log_level,
            environment=context.settings.agent_environment,
        ),
        "command": CommandExecutor(context.restarts, environment=context.settings.agent_environment),
        "workflow": workflows,
    }
    consumers: list[Consumer] = []
    heartbeater = Heartbeater(
        context,
        lambda: all(consumer.live or consumer.is_paused for consumer in consumers),
        agent.definitions,
        lambda: next((consumer.trouble for consumer in consumers if consumer.trouble), None),
    )

    def find_epoch() -> tuple[int, int] | None:
        epoch = control.epoch  # what was published in a gap may be lost
        return None if heartbeater.silent or epoch is None else (epoch, heartbeater.gaps)

    start_gate = StartGate(context, heartbeater.send_requested_heartbeat, find_epoch)
    handle_control = ControlHandler(context, heartbeater, start_gate).handle
    control = Listener(context.bus, context.own_control_queue.name, handle_control, context.clock)
    attempt_runner = AttemptRunner(
        context,
        agent.definitions,
        executors,
        reporter,
        progress,
        checkpoints=checkpoints,
        logs=logs,
        telemetry=telemetry,
        start_gate=start_gate,
    )
    receiver = Receiver(context, attempt_runner, reporter, outbox, start_gate)
    run_sizes = Counter(dict.fromkeys(context.queues, 1))
    for one in agent.definitions.values():
        if one.gather is not None:
            run_sizes |= Counter({one.declaration.queue: one.gather.up_to})
    consumers += [
        _consumer(context, receiver, heartbeater, queue, telemetry.metrics, run_size=run_sizes[queue])
        for queue in context.queues
    ]

    def find_room(queue: str) -> int:
        return _prefetch(context.running.room(queue), run_sizes[queue])

    async def follow_slots() -> None:
        for queue, consumer in zip(context.queues, consumers, strict=True):
            await consumer.resize(
                _prefetch(context.running.allowed, run_sizes[queue]), partial(find_room, queue)
            )

    lease_keeper = LeaseKeeper(context, lambda: heartbeater.silent)
    every, lease = partial(Loop, clock=context.clock), context.settings.agent_claim_ttl
    return Group(
        ManagedComponent("executors", context.restarts.check),
        heartbeater,
        outbox,
        Announcer(
            context,
            outbox,
            agent.definitions.values(),
            encrypt_schedules(context.codec, agent.schedules, attempt_runner.encrypted_types),
        ),
        control,
        every("heartbeats", heartbeater.send_heartbeat, every=context.settings.agent_heartbeat),
        every("leases", lease_keeper.renew, every=lease * 0.3),
        every("leases of a silent agent", lease_keeper.give_way, every=lease * 0.05),
        every("lease watch", lease_keeper.watch, every=lease * 0.05),
        every("meter of the user", telemetry.look_for_user_meter, every=_METER_INTERVAL),
        every("forgetting", lease_keeper.delete_old, every=3600.0),
        logs,
        every("logs", logs.publish_due, every=context.settings.agent_log_interval),
        reporter,
        progress,
        every("checkpoints", checkpoints.save_due, every=SAVE_INTERVAL),
        every("prefetch", follow_slots, every=1.0),
        every("starts", progress.announce_due, every=0.25),
        every("attempt counts", attempt_runner.count_attempts, every=1.0),
        attempt_runner,
        receiver.suspect_readings,
        *consumers,
        ReadyGate(heartbeater),
        name="agent",
    )


def _prefetch(slots: int, run_size: int) -> int:
    """Return how many messages are unacknowledged at most: as many as slots, or as runs of gathered jobs
    take."""
    return max(slots, min(slots * run_size, _MAX_PREFETCH))


def _consumer(
    context: AgentContext,
    receiver: Receiver,
    heartbeater: Heartbeater,
    queue: str,
    metrics: Metrics,
    *,
    run_size: int,
) -> Consumer:
    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        heartbeater.require_proof()
        await receiver.handle(queue, subscription, deliveries)

    async def probe() -> None:
        heartbeater.require_proof()
        await context.ledger.ping()
        await receiver.suspect_readings.release()

    # As many unacknowledged as the slots can run (`follow_slots`): messages wait in the queue, where
    # another agent can receive them.
    return Consumer(
        f"attempts of {queue}",
        context.bus,
        dispatch_queue(queue).name,
        _prefetch(context.settings.agent_slots, run_size),
        handle,
        clock=context.clock,
        probe=probe,
        metrics=metrics,
        measures_processing=False,  # that of an attempt is its handler
    )


async def production(agent: Agent, settings: AgentSettings, telemetry: Telemetry) -> Service:
    """Assemble an agent on the broker and the ledger that the settings name."""
    if not agent.definitions:
        raise SettingsError(["expected at least one job type, got none; declare one with @agent.job(...)"])
    try:
        ledger = open_ledger(settings.ledger_url)
    except ValueError as error:
        raise SettingsError([f"WARRENER_LEDGER_URL: {error}"]) from error
    folder = settings.agent_folder or default_identity_folder(settings.ledger_url)
    identity = acquire_identity(folder, _queues(agent, settings), SystemEntropy(), settings.sender)
    return on_broker_and_database(
        NAME,
        settings,
        telemetry,
        ledger,
        lambda bus, clock, entropy: assemble(
            agent,
            bus,
            ledger,
            clock,
            entropy,
            telemetry,
            settings,
            agent_id=identity.agent_id,
            end_process=os._exit,  # a blocked loop cannot end in a tidier way
        ),
        database_name="ledger",
        signs=REQUESTS,
        first=[Resource("identity", shut=identity.release)],
        connections=2,
        names_user=True,
    )


def _queues(agent: Agent, settings: AgentSettings) -> tuple[str, ...]:
    """The queues of the settings, or else those that the job types declare."""
    return settings.agent_queues or tuple(
        sorted({definition.declaration.queue for definition in agent.definitions.values()})
    )

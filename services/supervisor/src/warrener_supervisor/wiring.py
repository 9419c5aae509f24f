"""Put the supervisor together: the only module that chooses bus and store."""

import os
import re
import socket
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from warrener_contracts.messages import Message
from warrener_contracts.registry import build_models
from warrener_contracts.topology import (
    DEAD_QUEUE,
    LOGS_QUEUE,
    STATUS_QUEUE,
    SUPERVISOR_COMMANDS,
    TOPOLOGY,
    UNROUTABLE_QUEUE,
    heartbeats_queue,
)
from warrener_runtime.bus import Bus, TopologyMismatch, open_bus
from warrener_runtime.clock import Clock, Entropy, SystemEntropy
from warrener_runtime.commands import CommandCarrier, CommandQueue, MeasuredInbox, consume_by_bus
from warrener_runtime.database_clock import DatabaseClock
from warrener_runtime.lifecycle import Component, Consumer, Group, Loop, Resource
from warrener_runtime.lifecycle.crashed_readers import IsolatingHandler
from warrener_runtime.lifecycle.run import Service
from warrener_runtime.logs import get_logger
from warrener_runtime.settings import SettingsError
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.telemetry.metric_names import STORE_DURATION
from warrener_store import StateStore, Store, StoreError, StoreNotMigrated, StoreUnavailable, open_store
from warrener_store.installation import require_installation
from warrener_store.logs.rows import LogLimit
from warrener_store.parked.crashed_readers import StoredTries
from warrener_store.store import connect_with_retry
from warrener_supervisor import effects
from warrener_supervisor.breakers.monitor import BreakerMonitor
from warrener_supervisor.commands import SupervisorCommands, supervisor_inbox
from warrener_supervisor.dead_letters import DeadLetterConsumer
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.decisions.heartbeat_diff import HeartbeatTracker
from warrener_supervisor.escalation.alert_sinks import SinkRegistry
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.escalation.policy_file import EscalationFile, ReloadOnSignal
from warrener_supervisor.escalation.runner import EscalationRunner
from warrener_supervisor.heartbeat_consumer import TICK, HeartbeatConsumer, HeartbeatCoverage
from warrener_supervisor.heartbeat_sentinel import HeartbeatSentinel
from warrener_supervisor.log_consumer import LogConsumer
from warrener_supervisor.loss_detector import LossDetector
from warrener_supervisor.metrics import SupervisorMetrics
from warrener_supervisor.redispatch import Redispatcher
from warrener_supervisor.requeue import ParkedMessageRequeuer
from warrener_supervisor.schedule_monitor import ScheduleMonitor
from warrener_supervisor.service_monitor import ServiceMonitor
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.statistics import StatisticsKeeper, StatisticsLoop
from warrener_supervisor.status_consumer import StatusConsumer
from warrener_supervisor.store_gauges import GaugesLoop, StoreGauges
from warrener_supervisor.topology_keeper import KEEP_INTERVAL, TopologyKeeper
from warrener_supervisor.trace_spans import JobSpans
from warrener_supervisor.unpublished import UnpublishedDispatcher
from warrener_supervisor.watchdog import Watchdog

build_models()  # before the first message, and once for all forked processes

NAME = "warrener-supervisor"
_BEATS_AT_ONCE = 200
_BURIALS_AT_ONCE = 50
_LOGS_AT_ONCE, _LOGS_PREFETCH = 50, 100
_ALERT_EVERY = 5.0
_COMPARE_EVERY = 5.0  # seconds between comparisons of the store with the dispatch queues
_UNPUBLISHED_EVERY = 1.0
_FORGET_EVERY = 3600.0
_UNPROVED = "heartbeats.unproved"  # the kind of an incident
_log = get_logger("supervisor")


def assemble(  # noqa: PLR0917 - the same six for every service
    bus: Bus,
    store: Store,
    clock: Clock,
    entropy: Entropy,
    telemetry: Telemetry,
    settings: SupervisorSettings,
    *,
    policies: EscalationFile | None = None,
    command_carrier: CommandCarrier = consume_by_bus,
) -> Component:
    """Return the supervisor on a bus and a store that work already. Any number of them may run at once.

    `policies`: the file that the settings name, if it is open already. `command_carrier` consumes the queue
    of commands: by default the bus does.
    """
    timings = timings_from(settings)
    breakers, reporter = BreakerMonitor(bus, store, clock), IncidentReporter(store.escalations, clock)
    metrics = SupervisorMetrics(telemetry.metrics)
    commands = SupervisorCommands(breakers, reporter, ParkedMessageRequeuer(bus, store))
    replica = _replica(entropy)
    heartbeats = heartbeats_queue(replica)
    tracker = HeartbeatTracker(timings.compare.total_seconds(), timings.lease.total_seconds() / 2)
    spans = JobSpans(telemetry, clock)

    async def raise_unproved(text: str) -> None:
        await reporter.raise_incident(_UNPROVED, heartbeats.name, _UNPROVED, {"text": text})

    sentinel = HeartbeatSentinel(bus, clock, entropy, replica, heartbeats, raise_unproved)
    heartbeat_consumer = HeartbeatConsumer(
        bus,
        store,
        clock,
        timings,
        tracker,
        conclusive=lambda: coverage.is_conclusive(clock.monotonic()),
        sentinel=sentinel,
        spans=spans,
        max_events=settings.batch_limit,
    )
    status_consumer = StatusConsumer(
        bus,
        store,
        clock,
        entropy=entropy,
        telemetry=telemetry,
        timings=timings,
        breakers=breakers,
        reporter=reporter,
        record_heartbeats=heartbeat_consumer.record,
        metrics=metrics,
        max_events=settings.batch_limit,
    )
    log_limit = LogLimit(settings.supervisor_log_lines_limit, settings.supervisor_log_size_limit)
    log_consumer = LogConsumer(bus, store, clock, log_limit, max_events=settings.batch_limit)
    dead_letters = DeadLetterConsumer(bus, store, clock, metrics=metrics, max_events=settings.batch_limit)
    stall_timeout = settings.consumer_stall_timeout
    heartbeat_loop = Consumer(
        "presence",
        bus,
        heartbeats.name,
        _BEATS_AT_ONCE,
        heartbeat_consumer.handle,
        clock=clock,
        give_up_after=stall_timeout,
        own_queue=True,
        probe=store.ping,
        metrics=telemetry.metrics,
    )
    coverage = HeartbeatCoverage(
        lambda: heartbeat_loop.live and sentinel.proves and heartbeat_consumer.keeps_up and clock.trusted,
        lambda: heartbeat_loop.epoch,
        timings,
    )
    loss_detector = LossDetector(bus, store, clock, entropy, timings, tracker, coverage)
    watchdog = Watchdog(bus, store, clock, timings)
    redispatch = Redispatcher(bus, store, clock, timings, spans=spans)
    unpublished = UnpublishedDispatcher(bus, store, clock, timings, reporter, spans=spans)
    service_monitor = ServiceMonitor(bus, store, clock, timings, coverage, reporter)
    keeper = TopologyKeeper(bus, store, reporter, [heartbeats])
    schedules = ScheduleMonitor(bus, store, clock, timings=timings, reporter=reporter)

    gauges = StoreGauges(bus, store, clock, telemetry.metrics, metrics, holder=replica, lease=timings.lease)

    async def publish(messages: Sequence[Message]) -> None:
        await effects.publish(bus, messages, clock)

    escalation = EscalationRunner(
        store,
        publish,
        (policies or EscalationFile(settings.supervisor_escalation_file)).current,
        sinks=SinkRegistry(),
        clock=clock,
        entropy=entropy,
    )
    judging = partial(Loop, clock=clock, judges_time=True)
    tries = StoredTries(store, clock.now)
    return Group(
        Resource("topology", lambda: bus.declare(TOPOLOGY.with_queues([heartbeats])), _nothing),
        # Before the consumers: a job that dies afterwards died under these policies.
        Resource("policies", escalation.load_policies, _nothing),
        Consumer(
            "observe",
            bus,
            STATUS_QUEUE.name,
            2 * settings.supervisor_status_prefetch,
            IsolatingHandler(STATUS_QUEUE.name, status_consumer.handle, tries),
            max_batch_size=settings.supervisor_status_prefetch,
            clock=clock,
            give_up_after=stall_timeout,
            probe=store.ping,
            metrics=telemetry.metrics,
        ),
        heartbeat_loop,
        sentinel,
        command_carrier(
            CommandQueue(
                "commands",
                SUPERVISOR_COMMANDS,
                MeasuredInbox(
                    supervisor_inbox(bus, clock, commands, settings.batch_limit),
                    SUPERVISOR_COMMANDS.name,
                    telemetry.metrics,
                ),
                tries,
                store.ping,
                clock,
                stall_timeout,
            ),
            bus,
        ),
        *(
            Consumer(
                f"bury {queue.name}",
                bus,
                queue.name,
                _BURIALS_AT_ONCE,
                IsolatingHandler(queue.name, dead_letters.handle, tries),
                clock=clock,
                give_up_after=stall_timeout,
                probe=store.ping,
                metrics=telemetry.metrics,
            )
            for queue in (DEAD_QUEUE, UNROUTABLE_QUEUE)
        ),
        Consumer(
            "logs",
            bus,
            LOGS_QUEUE.name,
            _LOGS_PREFETCH,
            log_consumer.handle,
            max_batch_size=_LOGS_AT_ONCE,
            clock=clock,
            give_up_after=stall_timeout,
            probe=store.ping,
            metrics=telemetry.metrics,
        ),
        Loop("stale tries", tries.forget_stale, every=_FORGET_EVERY, clock=clock),
        judging("breakers", breakers.run_once, every=settings.supervisor_watchdog_interval),
        judging("escalation", escalation.run_once, every=settings.supervisor_watchdog_interval),
        judging("watchdog", watchdog.run_once, every=settings.supervisor_watchdog_interval),
        judging("unpublished jobs", unpublished.run_once, every=_UNPUBLISHED_EVERY),
        judging("redispatch", redispatch.run_once, every=_COMPARE_EVERY),
        Loop("topology", keeper.run_once, every=KEEP_INTERVAL, clock=clock),
        Loop("hearing", partial(_sample, coverage, clock), every=TICK, clock=clock),
        judging("losses", loss_detector.run_once, every=settings.supervisor_watchdog_interval),
        judging("alert", service_monitor.run_once, every=_ALERT_EVERY),
        judging("schedules", schedules.run_once, every=_ALERT_EVERY),
        StatisticsLoop(StatisticsKeeper(store, clock, holder=replica), clock),
        *([GaugesLoop(gauges, clock)] if telemetry.metrics.enabled else []),
        name=NAME,
    )


async def _sample(coverage: HeartbeatCoverage, clock: Clock) -> None:
    coverage.sample(clock.monotonic())


def _replica(entropy: Entropy) -> str:
    """Return a name that no other process has had, for its queue of heartbeats."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{entropy.new_id().hex[-8:]}"


def timings_from(settings: SupervisorSettings) -> Timings:
    return Timings(
        lease=timedelta(seconds=settings.supervisor_agent_timeout),
        look=timedelta(seconds=settings.supervisor_watchdog_interval),
        delay_grace=timedelta(seconds=settings.supervisor_delay_grace),
        timeout_grace=timedelta(seconds=settings.supervisor_timeout_grace),
    )


async def production(settings: SupervisorSettings, telemetry: Telemetry) -> Service:
    """Return the supervisor on RabbitMQ and a database. Raises SettingsError if their URLs cannot be used."""
    # FastStream takes half a second to import, and simulations do without it.
    from warrener_runtime.commands.faststream_consumer import consume_by_faststream  # noqa: PLC0415

    try:
        duration = telemetry.metrics.histogram(STORE_DURATION)
        store = open_store(settings.store_url, observer=duration.record)
    except StoreError as error:
        raise SettingsError([str(error)]) from error
    clock = DatabaseClock(store.time)
    bus = open_bus(settings.broker_url, name=NAME, namespace=settings.namespace, metrics=telemetry.metrics)
    installation = partial(
        require_installation,
        store,
        bus.declare,
        candidate=SystemEntropy().new_id(),
        refused=TopologyMismatch,
        namespace=settings.namespace,
        error=SettingsError,
    )
    policies = EscalationFile(settings.supervisor_escalation_file)
    component = Group(
        # Without a file there is nothing to reload, and SIGHUP ends the process as usual.
        *([ReloadOnSignal(policies.force_reload)] if settings.supervisor_escalation_file else ()),
        Resource("store", lambda: _open(store, clock), store.close),
        clock.component(),
        Resource("bus", bus.start, bus.close),
        Resource("installation", installation, _nothing),
        assemble(
            bus,
            store,
            clock,
            SystemEntropy(),
            telemetry,
            settings,
            policies=policies,
            command_carrier=consume_by_faststream(
                settings.broker_url, name=NAME, namespace=settings.namespace
            ),
        ),
        name="production",
    )
    return Service(component, {"broker": bus.ping, "store": store.ping, "clock": clock.check})


async def _nothing() -> None:
    """Stop: declared queues stay."""


async def _open(store: StateStore, clock: Clock) -> None:
    """Wait for the database. An error that waiting cannot mend is raised for the operator."""
    try:
        await connect_with_retry(store, sleep=clock.sleep, waiting=_log_waiting)
    except StoreNotMigrated as error:
        raise SettingsError([str(error)]) from error


def _log_waiting(error: StoreUnavailable) -> None:
    _log.warning("The store does not answer yet: waiting for it.", action="store.waiting", error=str(error))

"""Put the supervisor together: the only module that chooses bus and store."""

import asyncio
import os
import re
import socket
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from warrener_contracts.registry import build_models
from warrener_contracts.topology import (
    DEAD_QUEUE,
    LOGS_QUEUE,
    REQUESTS,
    STATUS_QUEUE,
    SUPERVISOR_COMMANDS,
    TOPOLOGY,
    UNROUTABLE_QUEUE,
    Queue,
    dispatch_queue,
    heartbeats_queue,
)
from warrener_runtime.bus import Bus
from warrener_runtime.bus.port import DeclarationForbidden
from warrener_runtime.clock import Clock, Entropy
from warrener_runtime.health import current_refusals
from warrener_runtime.lifecycle import Component, Consumer, Group, Loop, Resource
from warrener_runtime.lifecycle.consumer import Handle
from warrener_runtime.lifecycle.crashed_readers import IsolatingHandler
from warrener_runtime.lifecycle.declaring import declare_pieces
from warrener_runtime.lifecycle.listener import consume_commands
from warrener_runtime.lifecycle.run import Service, on_broker_and_database
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.telemetry.metric_names import STORE_DURATION
from warrener_store import Store, StoreNotMigrated, open_store
from warrener_store.agents.rows import declared_queues
from warrener_store.databases.address import StoreUrlError
from warrener_store.incidents.rows import TOPOLOGY_REFUSED, refused_pieces
from warrener_store.installation import ForeignBroker, claim_namespace
from warrener_store.logs.rows import LogLimit
from warrener_store.parked.crashed_readers import StoredTries
from warrener_supervisor.agent_owners import AgentOwners
from warrener_supervisor.breakers.monitor import BreakerMonitor
from warrener_supervisor.cancel_tree import CancelMarks
from warrener_supervisor.commands import supervisor_inbox
from warrener_supervisor.dead_letters import DeadLetterConsumer
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.decisions.heartbeat_diff import HeartbeatTracker
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.escalation.policy_file import EscalationFile, ReloadOnSignal
from warrener_supervisor.escalation.runner import EscalationRunner
from warrener_supervisor.heartbeat_consumer import TICK, HeartbeatConsumer, HeartbeatCoverage
from warrener_supervisor.heartbeat_sentinel import HeartbeatSentinel
from warrener_supervisor.limits import SlotKeeper
from warrener_supervisor.log_consumer import LogConsumer
from warrener_supervisor.loss_detector import LossDetector
from warrener_supervisor.metrics import INTERVAL as GAUGES_INTERVAL
from warrener_supervisor.metrics import StoreGauges, SupervisorMetrics
from warrener_supervisor.redispatch import Redispatcher
from warrener_supervisor.requeue import REQUEUE_INTERVAL, ParkedMessageRequeuer
from warrener_supervisor.schedule_monitor import ScheduleMonitor
from warrener_supervisor.service_monitor import ServiceMonitor
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.statistics import INTERVAL as STATISTICS_INTERVAL
from warrener_supervisor.statistics import StatisticsKeeper
from warrener_supervisor.status_consumer import StatusConsumer
from warrener_supervisor.trace_spans import JobSpans
from warrener_supervisor.unpublished import UnpublishedDispatcher
from warrener_supervisor.watchdog import Watchdog
from warrener_supervisor.workflow_turns import TurnMaker

_log = get_logger("topology")
build_models()  # before the first message, and once for all forked processes

NAME = "warrener-supervisor"
REFUSALS = (StoreUrlError, StoreNotMigrated, ForeignBroker)
"""Errors that waiting cannot solve."""
_BEATS_AT_ONCE = 200
_BURIALS_AT_ONCE = 50
_LOGS_AT_ONCE, _LOGS_PREFETCH = 50, 100
_ALERT_EVERY = 5.0
_COMPARE_EVERY = 5.0  # seconds between comparisons of the store with the dispatch queues
_UNPUBLISHED_EVERY = 1.0
_SWEEP_EVERY = 5.0
_FORGET_EVERY = 3600.0
_DECLARE_EVERY = 20.0
_DECLARE_WITHIN = 60.0  # seconds: while a node of a cluster is frozen, declarations wait
_QUEUES_AT_ONCE = 50
_UNPROVED = "heartbeats.unproved"  # the kind of an incident


def assemble(  # noqa: PLR0917 - the same six for every service
    bus: Bus,
    store: Store,
    clock: Clock,
    entropy: Entropy,
    telemetry: Telemetry,
    settings: SupervisorSettings,
    *,
    policies: EscalationFile | None = None,
) -> Component:
    """Return the supervisor on a bus and a store that work already. Any number of them may run at once.

    `policies`: the file that the settings name, if it is open already.
    """
    timings = Timings(
        lease=timedelta(seconds=settings.supervisor_agent_timeout),
        look=timedelta(seconds=settings.supervisor_watchdog_interval),
        delay_grace=timedelta(seconds=settings.supervisor_delay_grace),
        timeout_grace=timedelta(seconds=settings.supervisor_timeout_grace),
    )
    ports = SupervisorPorts(bus, store, clock, timings)
    breakers, reporter = BreakerMonitor(ports), IncidentReporter(store.escalations, clock)
    metrics = SupervisorMetrics(telemetry.metrics)
    requeuer, spans = ParkedMessageRequeuer(ports), JobSpans(telemetry, clock)
    tracker = HeartbeatTracker(timings.compare.total_seconds(), timings.lease.total_seconds() / 2)

    def listed_jobs() -> set[UUID] | None:
        now = clock.monotonic()
        is_complete = coverage.is_conclusive(now)
        return tracker.jobs_listed_since(now - timings.lease.total_seconds()) if is_complete else None

    slots = SlotKeeper(ports, spans=spans, listed_jobs=listed_jobs)
    turns = TurnMaker(ports, spans=spans, reporter=reporter, metrics=metrics, slots=slots)
    inbox = supervisor_inbox(
        ports,
        settings.batch_limit,
        marks=CancelMarks(store, clock, settings.supervisor_cancel_marks_limit),
        breakers=breakers,
        slots=slots,
        turns=turns,
        incidents=reporter,
        requeuer=requeuer,
    )
    # No other process has had this name, for its queue of heartbeats.
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:60]
    replica = f"{host}-{os.getpid()}-{entropy.new_id().hex[-8:]}"
    heartbeats = heartbeats_queue(replica)

    async def raise_unproved(text: str) -> None:
        await reporter.raise_incident(_UNPROVED, heartbeats.name, _UNPROVED, {"text": text})

    sentinel = HeartbeatSentinel(bus, clock, entropy, replica, heartbeats, raise_unproved)
    owners = AgentOwners(store, clock, settings.sender)
    heartbeat_consumer = HeartbeatConsumer(
        ports,
        tracker,
        conclusive=lambda: coverage.is_conclusive(clock.monotonic()),
        sentinel=sentinel,
        owners=owners,
        spans=spans,
        max_events=settings.batch_limit,
    )
    status_consumer = StatusConsumer(
        ports,
        entropy=entropy,
        spans=spans,
        breakers=breakers,
        turns=turns,
        slots=slots,
        reporter=reporter,
        owners=owners,
        record_heartbeats=heartbeat_consumer.record,
        metrics=metrics,
        max_events=settings.batch_limit,
    )
    log_limit = LogLimit(settings.supervisor_log_lines_limit, settings.supervisor_log_size_limit)
    log_consumer = LogConsumer(ports, log_limit, max_events=settings.batch_limit)
    dead_letters = DeadLetterConsumer(ports, metrics, max_events=settings.batch_limit)
    tries = StoredTries(store, clock.now, metrics.record_parked)
    lifecycle: dict[str, Any] = {"clock": clock, "probe": store.ping, "metrics": telemetry.metrics}

    def consumer(name: str, queue: str, handle: Handle, prefetch: int, **options: Any) -> Consumer:
        handler = IsolatingHandler(queue, handle, tries)
        return Consumer(name, bus, queue, prefetch, handler, **lifecycle, **options)

    heartbeat_loop = consumer(
        "presence", heartbeats.name, heartbeat_consumer.handle, _BEATS_AT_ONCE, own_queue=True
    )
    coverage = HeartbeatCoverage(
        lambda: heartbeat_loop.live and sentinel.proves and heartbeat_consumer.keeps_up and clock.trusted,
        lambda: heartbeat_loop.epoch,
        timings,
    )
    keeper = TopologyKeeper(ports, reporter, [heartbeats])
    gauges = StoreGauges(ports, telemetry.metrics, metrics, holder=replica)
    file = policies or EscalationFile(settings.supervisor_escalation_file)
    escalation = EscalationRunner(store, ports.publish, file.current, clock=clock, entropy=entropy)
    judging, looks = partial(Loop, clock=clock, judges_time=True), settings.supervisor_watchdog_interval
    return Group(
        Resource("topology", keeper.declare_all),
        # Before the consumers: a job that dies afterwards died under these policies.
        Resource("policies", escalation.load_policies),
        consumer(
            "observe",
            STATUS_QUEUE.name,
            status_consumer.handle,
            2 * settings.supervisor_status_prefetch,
            max_batch_size=settings.supervisor_status_prefetch,
        ),
        heartbeat_loop,
        sentinel,
        consume_commands(SUPERVISOR_COMMANDS.name, inbox.receive, bus, tries=tries, **lifecycle),
        *(
            consumer(f"bury {queue.name}", queue.name, dead_letters.handle, _BURIALS_AT_ONCE)
            for queue in (DEAD_QUEUE, UNROUTABLE_QUEUE)
        ),
        consumer("logs", LOGS_QUEUE.name, log_consumer.handle, _LOGS_PREFETCH, max_batch_size=_LOGS_AT_ONCE),
        Loop("stale tries", tries.forget_stale, every=_FORGET_EVERY, clock=clock),
        judging("breakers", breakers.run_once, every=looks),
        judging("escalation", escalation.run_once, every=looks),
        judging("watchdog", Watchdog(ports, slots).run_once, every=looks),
        judging("slots", slots.run_once, every=_SWEEP_EVERY),
        judging("workflows", turns.run_once, every=looks),
        judging(
            "unpublished jobs",
            UnpublishedDispatcher(ports, reporter, spans=spans).run_once,
            every=_UNPUBLISHED_EVERY,
        ),
        Loop("requeue", requeuer.requeue_understood, every=REQUEUE_INTERVAL.total_seconds(), clock=clock),
        judging("redispatch", Redispatcher(ports, spans=spans).run_once, every=_COMPARE_EVERY),
        Loop("topology", keeper.run_once, every=_DECLARE_EVERY, clock=clock),
        Loop("hearing", partial(_sample, coverage, clock), every=TICK, clock=clock),
        judging("losses", LossDetector(ports, entropy, tracker, coverage).run_once, every=looks),
        judging("alert", ServiceMonitor(ports, coverage, reporter).run_once, every=_ALERT_EVERY),
        judging("schedules", ScheduleMonitor(ports, reporter).run_once, every=_ALERT_EVERY),
        DutyLoop("statistics", StatisticsKeeper(store, clock, holder=replica), STATISTICS_INTERVAL, clock),
        *([DutyLoop("gauges", gauges, GAUGES_INTERVAL, clock)] if telemetry.metrics.enabled else []),
        name=NAME,
    )


class TopologyKeeper:
    """Declares all that services share, and dispatch queues in turns, in the background. Raises an incident
    about each piece that the broker refuses.

    Publishers declare what a message of theirs did not find. Nobody misses a piece whose messages are dropped
    or go elsewhere (log lines, dead letters, what leaves the delay queues), so supervisors declare everything
    again.
    """

    def __init__(self, ports: SupervisorPorts, reporter: IncidentReporter, own: Sequence[Queue] = ()) -> None:
        """`own`: exclusive queues of this supervisor, whose bindings are made again too."""
        self._bus, self._store, self._clock, _ = ports
        self._reporter, self._own = reporter, own
        self._next = 0
        self._refused: set[str] = set()

    async def declare_all(self) -> None:
        """Declare what is missing, as far as it is permitted; later turns compare what was there."""
        try:
            await self._bus.declare(TOPOLOGY.with_queues(self._own))
        except DeclarationForbidden:
            await self.run_once()

    async def run_once(self) -> None:
        """Declare what is missing. Raise the pieces that are refused, here or to any part of the service."""
        queues = (*self._own, *map(dispatch_queue, await self._some_queues()))
        topology = TOPOLOGY.with_queues(queues)
        try:
            async with asyncio.timeout(_DECLARE_WITHIN):
                refused = await declare_pieces(self._bus, topology, verify=True)
        except TimeoutError:
            return  # a later turn goes on
        for piece in refused.keys() - self._refused:
            _log.error(
                "A piece of the topology is missing or differs, and may not be declared.",
                action=TOPOLOGY_REFUSED,
                piece=piece,
                error=refused[piece],
            )
        self._refused = set(refused)
        hint = "; `warrener topology --check` compares all pieces"
        texts = {piece: f"{text}{hint}" for piece, text in refused.items()}
        await self._reporter.raise_incidents(refused_pieces(texts | current_refusals(), self._clock.now()))

    async def _some_queues(self) -> list[str]:
        queues = sorted(declared_queues(await self._store.job_types()))
        first = self._next if self._next < len(queues) else 0
        self._next = first + _QUEUES_AT_ONCE
        return queues[first : self._next]


class DutyLoop(Loop):
    """Does the duty of one supervisor at a time, and gives its claim back when the supervisor drains."""

    def __init__(
        self, name: str, duty: StatisticsKeeper | StoreGauges, interval: timedelta, clock: Clock
    ) -> None:
        super().__init__(name, duty.run_once, every=interval.total_seconds(), clock=clock, judges_time=True)
        self._duty = duty

    async def _on_drain(self) -> None:
        await super()._on_drain()
        await self._duty.release()


async def _sample(coverage: HeartbeatCoverage, clock: Clock) -> None:
    coverage.sample(clock.monotonic())


async def production(settings: SupervisorSettings, telemetry: Telemetry) -> Service:
    """Put the supervisor on RabbitMQ and a database. Raises one of REFUSALS."""
    store = open_store(settings.store_url, observer=telemetry.metrics.histogram(STORE_DURATION).record)
    policies = EscalationFile(settings.supervisor_escalation_file)
    return on_broker_and_database(
        NAME,
        settings,
        telemetry,
        store,
        lambda bus, clock, entropy: assemble(
            bus, store, clock, entropy, telemetry, settings, policies=policies
        ),
        signs=REQUESTS,
        claim=partial(claim_namespace, store),
        # Without a file there is nothing to reload, and SIGHUP ends the process as usual.
        first=[ReloadOnSignal(policies.force_reload)] if settings.supervisor_escalation_file else (),
        names_user=True,  # what it requeues is believed
    )

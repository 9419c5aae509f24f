"""Assemble the scheduler: the only module that knows which bus and which store it has."""

from functools import partial

from warrener_contracts import events
from warrener_contracts.codec import DecodeFailure
from warrener_contracts.commands import Command, CommandInbox, CommandReplies, one_by_one
from warrener_contracts.messages import Message
from warrener_contracts.registry import build_models
from warrener_contracts.topology import REQUESTS, REQUESTS_QUEUE, SCHEDULER_COMMANDS, TOPOLOGY, TRIGGERS_QUEUE
from warrener_runtime.bus import Bus
from warrener_runtime.clock import Clock, Entropy
from warrener_runtime.health import current_refusals
from warrener_runtime.lifecycle import Component, Consumer, Group, Loop, Resource
from warrener_runtime.lifecycle.consumer import Handle, IsHeavy
from warrener_runtime.lifecycle.crashed_readers import IsolatingHandler
from warrener_runtime.lifecycle.declaring import declare_when_permitted
from warrener_runtime.lifecycle.listener import consume_commands
from warrener_runtime.lifecycle.run import Service, on_broker_and_database
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.telemetry.metric_names import STORE_DURATION
from warrener_scheduler.accept import RejectedTicks, RequestAcceptor
from warrener_scheduler.dispatch import BreakerCache, CongestedQueues, Dispatcher, DispatchGates
from warrener_scheduler.job_types import (
    REFRESH_INTERVAL,
    AnnouncementHandler,
    JobTypeCache,
    JobTypeUsers,
    KnownQueues,
)
from warrener_scheduler.messages import SOURCE, unusable_replies
from warrener_scheduler.metrics import SchedulerMetrics
from warrener_scheduler.ports import SchedulerPorts
from warrener_scheduler.redrive import RedriveRunner
from warrener_scheduler.request_consumer import RequestConsumer, is_heavy
from warrener_scheduler.request_keys import load_request_keys
from warrener_scheduler.retention.pruner import Pruner, TickPruner
from warrener_scheduler.schedules.commands import ScheduleCommandHandler
from warrener_scheduler.schedules.ticker import Ticker, TickerLoop
from warrener_scheduler.schedules.writer import CodeSchedules, ScheduleWriter
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.triggers.bindings import TriggerBindings
from warrener_scheduler.triggers.consumer import TriggerConsumer
from warrener_store import StateStore, Store, StoreNotMigrated, open_store
from warrener_store.databases.address import StoreUrlError
from warrener_store.incidents.rows import refused_pieces
from warrener_store.installation import ForeignBroker, claim_namespace
from warrener_store.parked.crashed_readers import StoredTries

build_models()  # before the first message, and once for all forked processes

NAME = "warrener-scheduler"
REFUSALS = (StoreUrlError, StoreNotMigrated, ForeignBroker)  # errors that waiting cannot solve
_REDRIVE_INTERVAL = 0.5  # seconds
_BREAKER_REFRESH_INTERVAL = 1.0  # seconds
_BINDING_SYNC_INTERVAL = 30.0
_CLEANUP_INTERVAL = 3600.0
_REFUSALS_INTERVAL = 10.0

_commands_log = get_logger("commands")


def assemble(  # noqa: PLR0917 - the same six for every service
    bus: Bus, store: Store, clock: Clock, entropy: Entropy, telemetry: Telemetry, settings: SchedulerSettings
) -> Component:
    """Assemble the scheduler on a connected bus and store. Any number of schedulers may run at once."""
    metrics = SchedulerMetrics(telemetry.metrics)
    ports = SchedulerPorts(bus, store, clock, telemetry, metrics)

    async def read_secret() -> str:
        return await store.installation_secret(entropy.new_id(), entropy.new_secret())

    queues = KnownQueues(store, clock, bus, settings.scheduler_queues)
    ticker, job_types = Ticker(ports, read_secret), JobTypeCache(store, clock)
    redrives = RedriveRunner(ports, queues)
    gates = DispatchGates(BreakerCache(store), CongestedQueues(store, clock))
    bindings = TriggerBindings(bus, store, settings.scheduler_trigger_exchanges)
    writer = ScheduleWriter(store, clock, bindings)
    users = JobTypeUsers(settings.scheduler_job_type_users)
    code_schedules = CodeSchedules(store, clock, ticker.wake, writer, users.find)
    acceptor = RequestAcceptor(
        ports,
        gates,
        job_types,
        queues,
        rejected_ticks=RejectedTicks(store, clock, settings.scheduler_rejection_limit or None),
        idempotency_window=settings.scheduler_idempotency_window,
    )
    request_consumer = RequestConsumer(
        ports,
        acceptor,
        AnnouncementHandler(ports, code_schedules, gates.breakers, queues, users),
        job_types=job_types,
        congestion=gates.congestion,
        request_keys=load_request_keys(settings),
        max_events=settings.batch_limit,
    )
    schedule_commands = ScheduleCommandHandler(
        store,
        clock,
        ticker.wake,
        bindings=bindings,
        writer=writer,
        find_types=job_types.get_many,
        find_unknown_queues=queues.find_unknown,
        read_secret=read_secret,
    )
    trigger_consumer = TriggerConsumer(ports, ticker.wake, max_events=settings.batch_limit)
    keep, newest = settings.scheduler_tick_retention, settings.scheduler_ticks_keep_newest
    tick_pruner = TickPruner(store, clock, keep=keep, newest=newest)
    pruner = Pruner(store, clock, settings, holder=entropy.new_id_text(), tick_pruner=tick_pruner)
    interval = settings.scheduler_prune_interval
    tries = StoredTries(store, clock.now, metrics.record_parked)

    def build_consumer(name: str, queue: str, handle: Handle, is_heavy: IsHeavy | None = None) -> Consumer:
        return Consumer(
            name,
            bus,
            queue,
            2 * settings.scheduler_requests_prefetch,
            IsolatingHandler(queue, handle, tries),
            max_batch_size=settings.scheduler_requests_prefetch,
            clock=clock,
            probe=store.ping,
            is_heavy=is_heavy,
            metrics=telemetry.metrics,
        )

    return Group(
        Resource(
            "topology", partial(declare_when_permitted, "topology", lambda: bus.declare(TOPOLOGY), clock)
        ),
        build_consumer("accept", REQUESTS_QUEUE.name, request_consumer.handle, is_heavy),
        consume_commands(
            SCHEDULER_COMMANDS.name,
            scheduler_inbox(ports, schedule_commands, redrives, settings.batch_limit).receive,
            bus,
            tries=tries,
            clock=clock,
            probe=store.ping,
            metrics=telemetry.metrics,
        ),
        Loop("breakers", gates.breakers.refresh, every=_BREAKER_REFRESH_INTERVAL, clock=clock),
        Loop("job types", job_types.refresh, every=REFRESH_INTERVAL, clock=clock),
        Loop(
            "dispatch",
            Dispatcher(ports, gates).run_once,
            every=settings.scheduler_dispatch_interval,
            clock=clock,
            judges_time=True,
        ),
        Loop("redrives", redrives.run_once, every=_REDRIVE_INTERVAL, clock=clock),
        TickerLoop(ticker, clock),
        *(
            [Loop("prune", pruner.run_once, every=interval.total_seconds(), clock=clock, judges_time=True)]
            if interval is not None
            else []
        ),
        build_consumer("listen", TRIGGERS_QUEUE.name, trigger_consumer.handle),
        Loop("stale tries", tries.forget_stale, every=_CLEANUP_INTERVAL, clock=clock),
        Loop("refusals", partial(_raise_refused, store, clock), every=_REFUSALS_INTERVAL, clock=clock),
        Loop("bindings", bindings.sync, every=_BINDING_SYNC_INTERVAL, clock=clock),
        Loop("arrivals", trigger_consumer.delete_old_arrivals, every=_CLEANUP_INTERVAL, clock=clock),
        name=NAME,
    )


async def production(settings: SchedulerSettings, telemetry: Telemetry) -> Service:
    """Put the scheduler on RabbitMQ and a database. Raises one of REFUSALS."""
    store = open_store(settings.store_url, observer=telemetry.metrics.histogram(STORE_DURATION).record)
    return on_broker_and_database(
        NAME,
        settings,
        telemetry,
        store,
        lambda bus, clock, entropy: assemble(bus, store, clock, entropy, telemetry, settings),
        signs=REQUESTS,
        claim=partial(claim_namespace, store),
    )


async def _raise_refused(store: StateStore, clock: Clock) -> None:
    """Raise an incident for each piece of the topology that the broker refuses to this scheduler."""
    if refused := current_refusals():
        await store.escalations.raise_incidents(refused_pieces(refused, clock.now()))


def scheduler_inbox(
    ports: SchedulerPorts, schedules: ScheduleCommandHandler, redrives: RedriveRunner, max_events: int
) -> CommandInbox:
    """Assemble the functions of the commands that the scheduler receives."""

    def reject(found: DecodeFailure) -> list[Message]:
        _commands_log.warning(
            "A command that cannot be used was parked.",
            action="commands.unusable",
            reason=found.reason,
            detail=found.detail,
        )
        return unusable_replies(found, ports.clock.now())

    return CommandInbox(
        SCHEDULER_COMMANDS.name,
        [
            Command(events.SchedulePut, schedules.put),
            Command(events.SchedulePauseRequested, one_by_one(schedules.pause)),
            Command(events.ScheduleResumeRequested, one_by_one(schedules.resume)),
            Command(events.ScheduleRemoveRequested, one_by_one(schedules.remove)),
            Command(events.ScheduleTriggerRequested, one_by_one(schedules.trigger)),
            Command(events.ScheduleBackfillRequested, one_by_one(schedules.backfill)),
            Command(events.JobRedriveRequested, one_by_one(redrives.begin)),
            Command(events.JobDropRequested, one_by_one(redrives.begin)),
            Command(events.RedriveChangeRequested, one_by_one(redrives.change)),
        ],
        replies=CommandReplies(SOURCE, ports.clock.now),
        on_unusable=reject,
        publish=ports.publish,
        max_events=max_events,
    )

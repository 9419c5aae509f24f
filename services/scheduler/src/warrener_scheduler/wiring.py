"""Assemble the scheduler: the only module that knows which bus and which store it has."""

from functools import partial

from warrener_contracts.registry import build_models
from warrener_contracts.topology import REQUESTS_QUEUE, SCHEDULER_COMMANDS, TOPOLOGY, TRIGGERS_QUEUE
from warrener_runtime.bus import Bus, Subscription, TopologyMismatch, open_bus
from warrener_runtime.clock import Clock, Entropy, SystemEntropy
from warrener_runtime.commands import CommandCarrier, CommandQueue, MeasuredInbox, consume_by_bus
from warrener_runtime.database_clock import DatabaseClock
from warrener_runtime.lifecycle import Component, Consumer, Group, Loop, Resource
from warrener_runtime.lifecycle.consumer import Handle, IsHeavy
from warrener_runtime.lifecycle.crashed_readers import IsolatingHandler
from warrener_runtime.lifecycle.run import Service
from warrener_runtime.logs import get_logger
from warrener_runtime.settings import SettingsError
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.telemetry.metric_names import STORE_DURATION
from warrener_scheduler.accept import RejectedTicks, RequestAcceptor
from warrener_scheduler.commands import scheduler_inbox
from warrener_scheduler.dispatch import Dispatcher
from warrener_scheduler.dispatch_gates import BreakerCache, CongestedQueues
from warrener_scheduler.job_types import REFRESH_INTERVAL, AnnouncementHandler, JobTypeCache
from warrener_scheduler.metrics import SchedulerMetrics
from warrener_scheduler.redrive import RedriveRunner
from warrener_scheduler.request_consumer import RequestConsumer, is_heavy
from warrener_scheduler.retention.pruner import build_pruner
from warrener_scheduler.schedules.commands import ScheduleCommandHandler
from warrener_scheduler.schedules.from_code import CodeSchedules
from warrener_scheduler.schedules.ticker import Ticker, TickerLoop
from warrener_scheduler.schedules.writer import ScheduleWriter
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.triggers.bindings import TriggerBindings
from warrener_scheduler.triggers.consumer import TriggerConsumer
from warrener_store import StateStore, Store, StoreError, StoreNotMigrated, StoreUnavailable, open_store
from warrener_store.installation import require_installation
from warrener_store.parked.crashed_readers import StoredTries
from warrener_store.store import connect_with_retry

build_models()  # before the first message, and once for all forked processes

NAME = "warrener-scheduler"
_REDRIVE_INTERVAL = 0.5  # seconds
_BREAKER_REFRESH_INTERVAL = 1.0  # seconds
_BINDING_SYNC_INTERVAL = 30.0
_CLEANUP_INTERVAL = 3600.0

_log = get_logger("scheduler")


def assemble(  # noqa: PLR0917 - the same six for every service
    bus: Bus,
    store: Store,
    clock: Clock,
    entropy: Entropy,
    telemetry: Telemetry,
    settings: SchedulerSettings,
    *,
    command_carrier: CommandCarrier = consume_by_bus,
) -> Component:
    """Assemble the scheduler on a connected bus and store. Any number of schedulers may run at once.

    `command_carrier` consumes the queue of commands: by default the bus does.
    """
    breaker_cache, redrive_runner = BreakerCache(store), RedriveRunner(bus, store, clock, telemetry)
    metrics = SchedulerMetrics(telemetry.metrics)
    ticker, job_types = Ticker(bus, store, clock, telemetry, metrics), JobTypeCache(store, clock)
    bindings, congestion = TriggerBindings(bus, store), CongestedQueues(store, clock)
    writer = ScheduleWriter(store, clock, bindings)
    acceptor = RequestAcceptor(
        store,
        clock,
        telemetry,
        breaker_cache=breaker_cache,
        job_types=job_types,
        congestion=congestion,
        rejected_ticks=RejectedTicks(store, clock, settings.scheduler_rejection_limit or None),
        idempotency_window=settings.scheduler_idempotency_window,
    )
    request_consumer = RequestConsumer(
        bus,
        clock,
        acceptor,
        AnnouncementHandler(
            bus,
            store,
            clock,
            code_schedules=CodeSchedules(store, clock, ticker.wake, writer),
            breaker_cache=breaker_cache,
        ),
        job_types=job_types,
        congestion=congestion,
        metrics=metrics,
        max_events=settings.batch_limit,
    )
    schedule_commands = ScheduleCommandHandler(
        store, clock, ticker.wake, bindings=bindings, writer=writer, job_types=job_types
    )
    trigger_consumer = TriggerConsumer(bus, store, clock, ticker.wake, max_events=settings.batch_limit)
    dispatcher = Dispatcher(
        bus,
        store,
        clock,
        breaker_cache=breaker_cache,
        congestion=congestion,
        telemetry=telemetry,
        metrics=metrics,
    )
    pruner = build_pruner(store, clock, settings, holder=entropy.new_id_text())
    interval = settings.scheduler_prune_interval
    tries = StoredTries(store, clock.now)

    def build_consumer(name: str, queue: str, handle: Handle, is_heavy: IsHeavy | None = None) -> Consumer:
        return Consumer(
            name,
            bus,
            queue,
            2 * settings.scheduler_requests_prefetch,
            IsolatingHandler[Subscription](queue, handle, tries),
            max_batch_size=settings.scheduler_requests_prefetch,
            clock=clock,
            give_up_after=settings.consumer_stall_timeout,
            probe=store.ping,
            is_heavy=is_heavy,
            metrics=telemetry.metrics,
        )

    return Group(
        Resource("topology", lambda: bus.declare(TOPOLOGY), _do_nothing),
        build_consumer("accept", REQUESTS_QUEUE.name, request_consumer.handle, is_heavy),
        command_carrier(
            CommandQueue(
                "commands",
                SCHEDULER_COMMANDS,
                MeasuredInbox(
                    scheduler_inbox(bus, clock, schedule_commands, redrive_runner, settings.batch_limit),
                    SCHEDULER_COMMANDS.name,
                    telemetry.metrics,
                ),
                tries,
                store.ping,
                clock,
                settings.consumer_stall_timeout,
            ),
            bus,
        ),
        Loop("breakers", breaker_cache.refresh, every=_BREAKER_REFRESH_INTERVAL, clock=clock),
        Loop("job types", job_types.refresh, every=REFRESH_INTERVAL, clock=clock),
        Loop(
            "dispatch",
            dispatcher.run_once,
            every=settings.scheduler_dispatch_interval,
            clock=clock,
            judges_time=True,
        ),
        Loop("redrives", redrive_runner.run_once, every=_REDRIVE_INTERVAL, clock=clock),
        TickerLoop(ticker, clock),
        *(
            [Loop("prune", pruner.run_once, every=interval.total_seconds(), clock=clock, judges_time=True)]
            if interval is not None
            else []
        ),
        build_consumer("listen", TRIGGERS_QUEUE.name, trigger_consumer.handle),
        Loop("stale tries", tries.forget_stale, every=_CLEANUP_INTERVAL, clock=clock),
        Loop("bindings", bindings.sync, every=_BINDING_SYNC_INTERVAL, clock=clock),
        Loop("arrivals", trigger_consumer.delete_old_arrivals, every=_CLEANUP_INTERVAL, clock=clock),
        name=NAME,
    )


async def production(settings: SchedulerSettings, telemetry: Telemetry) -> Service:
    """Assemble the scheduler on RabbitMQ and a database. Raises SettingsError for unusable URLs."""
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
    component = Group(
        Resource("store", lambda: _open(store, clock), store.close),
        clock.component(),
        Resource("bus", bus.start, bus.close),
        Resource("installation", installation, _do_nothing),
        assemble(
            bus,
            store,
            clock,
            SystemEntropy(),
            telemetry,
            settings,
            command_carrier=consume_by_faststream(
                settings.broker_url, name=NAME, namespace=settings.namespace
            ),
        ),
        name="production",
    )
    return Service(component, {"broker": bus.ping, "store": store.ping, "clock": clock.check})


async def _do_nothing() -> None:
    """Do nothing on close: declarations stay."""


async def _open(store: StateStore, clock: Clock) -> None:
    """Wait for the database. Raises SettingsError for errors that waiting cannot solve."""
    try:
        await connect_with_retry(store, sleep=clock.sleep, waiting=_log_waiting)
    except StoreNotMigrated as error:
        raise SettingsError([str(error)]) from error


def _log_waiting(error: StoreUnavailable) -> None:
    _log.warning("The store does not answer yet; waiting for it.", action="store.waiting", error=str(error))

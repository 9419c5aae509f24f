"""The scheduler put together: the only place that knows which bus and which store."""

from datetime import timedelta
from functools import partial

from warrener_contracts.topology import REQUESTS_QUEUE, TOPOLOGY, TRIGGERS_QUEUE
from warrener_runtime.bus import Bus, TopologyMismatch, open_bus
from warrener_runtime.clock import Clock, Entropy, SystemEntropy
from warrener_runtime.database_clock import DatabaseClock
from warrener_runtime.lifecycle import Component, Consumer, Group, Loop, Resource, Service
from warrener_runtime.lifecycle.crashed_readers import IsolatingHandler
from warrener_runtime.logs import get_logger
from warrener_runtime.settings import SettingsError
from warrener_runtime.telemetry import Telemetry
from warrener_scheduler.accept import Accept
from warrener_scheduler.announce import Announce
from warrener_scheduler.campaigns import Campaigns
from warrener_scheduler.clock.adopting import Adopting
from warrener_scheduler.clock.keeping import Keeping
from warrener_scheduler.clock.putting import Putting
from warrener_scheduler.clock.ticking import Ticking, TickingLoop
from warrener_scheduler.clock.upkeep import Upkeep
from warrener_scheduler.congestion import Congestion
from warrener_scheduler.dispatch import Dispatch
from warrener_scheduler.holds import Holds
from warrener_scheduler.idempotency import IdempotencyWindow
from warrener_scheduler.job_types import LOOK, JobTypes
from warrener_scheduler.retention.pruner import Pruner
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.triggers.binding import Bindings
from warrener_scheduler.triggers.listen import Listen
from warrener_store import StateStore, Store, StoreError, StoreNotMigrated, StoreUnavailable, open_store
from warrener_store.crashed_readers import StoredTries
from warrener_store.installation import require_installation
from warrener_store.connection_retry import connect_with_retry

NAME = "warrener-scheduler"
_CAMPAIGNS_EVERY = 0.5  # seconds between looks at the campaigns over dead letters

_LOOK_AT_BREAKERS = 1.0  # seconds
_LOOK_AT_BINDINGS = 30.0
_FORGET_EVERY = 3600.0

_log = get_logger("scheduler")


def assemble(  # noqa: PLR0917 - the same six for every service
    bus: Bus,
    store: Store,
    clock: Clock,
    entropy: Entropy,
    telemetry: Telemetry,
    settings: SchedulerSettings,
) -> Component:
    """The scheduler on a bus and a store that work already. Any number of them may run at once."""
    holds, campaigns = Holds(store), Campaigns(bus, store, clock)
    ticking, job_types = Ticking(bus, store, clock), JobTypes(store, clock)
    bindings, congestion = Bindings(bus, store), Congestion(store, clock)
    putting = Putting(store, clock, bindings)
    accept = Accept(
        bus,
        store,
        clock,
        telemetry,
        Announce(bus, store, clock, Adopting(store, clock, ticking.wake, putting)),
        holds=holds,
        campaigns=campaigns,
        keeping=Keeping(store, clock, ticking.wake, bindings=bindings, putting=putting),
        job_types=job_types,
        congestion=congestion,
        insert_jobs=IdempotencyWindow(store, clock, settings.scheduler_idempotency_window).insert_jobs,
        max_events=settings.batch_limit,
    )
    listen = Listen(bus, store, clock, ticking.wake, max_events=settings.batch_limit)
    dispatch = Dispatch(bus, store, clock, holds=holds, congestion=congestion)
    pruner = Pruner(
        store, clock, settings, holder=entropy.new_id_text(), upkeep=upkeep_of(store, clock, settings)
    )
    interval = settings.scheduler_prune_interval
    tries = StoredTries(store, clock.now)
    return Group(
        Resource("topology", lambda: bus.declare(TOPOLOGY), _nothing),
        Consumer(
            "accept",
            bus,
            REQUESTS_QUEUE.name,
            2 * settings.requests_prefetch,
            IsolatingHandler(REQUESTS_QUEUE.name, accept.handle, tries),
            max_batch_size=settings.requests_prefetch,
            clock=clock,
            give_up_after=settings.give_up_deaf_after,
            probe=store.ping,
        ),
        Loop("breakers", holds.look, every=_LOOK_AT_BREAKERS, clock=clock),
        Loop("job types", job_types.look, every=LOOK, clock=clock),
        Loop("dispatch", dispatch.look, every=settings.dispatch_every, clock=clock, judges_time=True),
        Loop("campaigns", campaigns.look, every=_CAMPAIGNS_EVERY, clock=clock),
        TickingLoop(ticking, clock),
        *(
            [Loop("prune", pruner.look, every=interval.total_seconds(), clock=clock, judges_time=True)]
            if interval is not None
            else []
        ),
        Consumer(
            "listen",
            bus,
            TRIGGERS_QUEUE.name,
            2 * settings.requests_prefetch,
            IsolatingHandler(TRIGGERS_QUEUE.name, listen.handle, tries),
            max_batch_size=settings.requests_prefetch,
            clock=clock,
            give_up_after=settings.give_up_deaf_after,
            probe=store.ping,
        ),
        Loop("stale tries", tries.forget_stale, every=_FORGET_EVERY, clock=clock),
        Loop("bindings", bindings.follow, every=_LOOK_AT_BINDINGS, clock=clock),
        Loop("arrivals", listen.forget, every=_FORGET_EVERY, clock=clock),
        name=NAME,
    )


def upkeep_of(store: Store, clock: Clock, settings: SchedulerSettings) -> Upkeep:
    """The upkeep of the ticks, by the settings."""
    keep = timedelta(days=settings.ticks_keep_days)
    return Upkeep(store, clock, keep=keep, newest=settings.ticks_keep_newest)


async def production(settings: SchedulerSettings, telemetry: Telemetry) -> Service:
    """The scheduler on RabbitMQ and a database. Raises SettingsError where these are not named well."""
    try:
        store = open_store(settings.store_url)
    except StoreError as error:
        raise SettingsError([str(error)]) from error
    clock = DatabaseClock(store.time)
    bus = open_bus(settings.broker_url, name=NAME, lane=settings.lane, namespace=settings.namespace)
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
        Resource("installation", installation, _nothing),
        assemble(bus, store, clock, SystemEntropy(), telemetry, settings),
        name="production",
    )
    return Service(component, {"broker": bus.ping, "store": store.ping, "clock": clock.check})


async def _nothing() -> None:
    """What was declared stays."""


async def _open(store: StateStore, clock: Clock) -> None:
    """Wait for the database; what waiting cannot mend is for the operator."""
    try:
        await connect_with_retry(store, sleep=clock.sleep, waiting=_say_waiting)
    except StoreNotMigrated as error:
        raise SettingsError([str(error)]) from error


def _say_waiting(error: StoreUnavailable) -> None:
    _log.warning("The store does not answer yet; waiting for it.", action="store.waiting", error=str(error))

"""The supervisor put together: the only place that knows which bus and which store."""

import os
import re
import socket
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from warrener_contracts.messages import Message
from warrener_contracts.topology import (
    DEAD_QUEUE,
    STATUS_QUEUE,
    TOPOLOGY,
    UNROUTABLE_QUEUE,
    heartbeats_queue,
)
from warrener_runtime.bus import Bus, TopologyMismatch, open_bus
from warrener_runtime.clock import Clock, Entropy, SystemEntropy
from warrener_runtime.database_clock import DatabaseClock
from warrener_runtime.lifecycle import Component, Consumer, Group, Loop, Resource, Service
from warrener_runtime.lifecycle.crashed_readers import IsolatingHandler
from warrener_runtime.logs import get_logger
from warrener_runtime.settings import SettingsError
from warrener_runtime.telemetry import Telemetry
from warrener_store import StateStore, Store, StoreError, StoreNotMigrated, StoreUnavailable, open_store
from warrener_store.crashed_readers import StoredTries
from warrener_store.installation import require_installation
from warrener_store.connection_retry import connect_with_retry
from warrener_supervisor import act
from warrener_supervisor.alert import Alert
from warrener_supervisor.breakers.keeper import Breakers
from warrener_supervisor.bury import Bury
from warrener_supervisor.escalation.hang_up import OnHangUp
from warrener_supervisor.escalation.intake import Intake
from warrener_supervisor.escalation.runner import Runner
from warrener_supervisor.escalation.sinks.rack import Rack
from warrener_supervisor.escalation.source import LadderFile
from warrener_supervisor.hearing import TICK, Hearing
from warrener_supervisor.listing import Listings
from warrener_supervisor.losses import Losses
from warrener_supervisor.observe import Observe
from warrener_supervisor.presence import Presence
from warrener_supervisor.redispatch import Redispatch
from warrener_supervisor.rules import Rules
from warrener_supervisor.schedules.watch import ScheduleWatch
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.unpublished import Unpublished
from warrener_supervisor.watchdog import Watchdog

NAME = "warrener-supervisor"
_BEATS_AT_ONCE = 200
_BURIALS_AT_ONCE = 50
_ALERT_EVERY = 5.0
_COMPARE_EVERY = 5.0  # seconds between comparisons of the store with the dispatch queues
_UNPUBLISHED_EVERY = 1.0
_FORGET_EVERY = 3600.0

_log = get_logger("supervisor")


def assemble(  # noqa: PLR0917 - the same six for every service
    bus: Bus,
    store: Store,
    clock: Clock,
    entropy: Entropy,
    telemetry: Telemetry,
    settings: SupervisorSettings,
    *,
    ladders: LadderFile | None = None,
) -> Component:
    """The supervisor on a bus and a store that work already. Any number of them may run at once.

    `ladders`: the file that the settings name, if somebody holds it already.
    """
    rules = rules_of(settings)
    breakers, intake = Breakers(bus, store, clock), Intake(store.escalations, clock)
    observe = Observe(
        bus,
        store,
        clock,
        entropy=entropy,
        telemetry=telemetry,
        rules=rules,
        breakers=breakers,
        intake=intake,
        max_events=settings.batch_limit,
    )
    heartbeats = heartbeats_queue(_replica(entropy))
    listings = Listings(rules.compare.total_seconds(), rules.lease.total_seconds() / 2)
    presence = Presence(
        bus,
        store,
        clock,
        rules,
        listings,
        conclusive=lambda: hearing.proves(clock.monotonic()),
        max_events=settings.batch_limit,
    )
    bury = Bury(bus, store, clock, max_events=settings.batch_limit)
    deaf = settings.give_up_deaf_after
    hearts = Consumer(
        "presence",
        bus,
        heartbeats.name,
        _BEATS_AT_ONCE,
        presence.handle,
        clock=clock,
        give_up_after=deaf,
        own_queue=True,
        probe=store.ping,
    )
    hearing = Hearing(
        lambda: hearts.live and presence.keeps_up and clock.trusted, lambda: hearts.epoch, rules
    )
    losses = Losses(bus, store, clock, entropy, rules, listings, hearing)
    watchdog = Watchdog(bus, store, clock, rules)
    redispatch = Redispatch(bus, store, clock, rules)
    unpublished = Unpublished(bus, store, clock, rules, intake)
    alert = Alert(bus, store, clock, rules, hearing, intake)
    schedules = ScheduleWatch(bus, store, clock, rules=rules, intake=intake)

    async def publish(letters: Sequence[Message]) -> None:
        await act.publish(bus, letters, clock)

    escalation = Runner(
        store,
        publish,
        (ladders or LadderFile(settings.escalation)).current,
        rack=Rack(),
        clock=clock,
        entropy=entropy,
    )
    judging = partial(Loop, clock=clock, judges_time=True)
    tries = StoredTries(store, clock.now)
    return Group(
        Resource("topology", lambda: bus.declare(TOPOLOGY.with_queues([heartbeats])), _nothing),
        Consumer(
            "observe",
            bus,
            STATUS_QUEUE.name,
            2 * settings.status_prefetch,
            IsolatingHandler(STATUS_QUEUE.name, observe.handle, tries),
            max_batch_size=settings.status_prefetch,
            clock=clock,
            give_up_after=deaf,
            probe=store.ping,
        ),
        hearts,
        *(
            Consumer(
                f"bury {queue.name}",
                bus,
                queue.name,
                _BURIALS_AT_ONCE,
                bury.handle,
                clock=clock,
                give_up_after=deaf,
                probe=store.ping,
            )
            for queue in (DEAD_QUEUE, UNROUTABLE_QUEUE)
        ),
        Loop("stale tries", tries.forget_stale, every=_FORGET_EVERY, clock=clock),
        judging("breakers", breakers.look, every=settings.watch_every),
        judging("escalation", escalation.look, every=settings.watch_every),
        judging("watchdog", watchdog.look, every=settings.watch_every),
        judging("unpublished jobs", unpublished.look, every=_UNPUBLISHED_EVERY),
        judging("redispatch", redispatch.look, every=_COMPARE_EVERY),
        Loop("hearing", partial(_look, hearing, clock), every=TICK, clock=clock),
        judging("losses", losses.look, every=settings.watch_every),
        judging("alert", alert.look, every=_ALERT_EVERY),
        judging("schedules", schedules.look, every=_ALERT_EVERY),
        name=NAME,
    )


async def _look(hearing: Hearing, clock: Clock) -> None:
    hearing.look(clock.monotonic())


def _replica(entropy: Entropy) -> str:
    """A name for this process that no other has had: its queue of heartbeats carries it."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{entropy.new_id().hex[-8:]}"


def rules_of(settings: SupervisorSettings) -> Rules:
    """The periods that the settings choose."""
    return Rules(
        lease=timedelta(seconds=settings.lease),
        ladder_grace=timedelta(seconds=settings.ladder_grace),
        timeout_grace=timedelta(seconds=settings.timeout_grace),
    )


async def production(settings: SupervisorSettings, telemetry: Telemetry) -> Service:
    """The supervisor on RabbitMQ and a database. Raises SettingsError where these are not named well."""
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
    ladders = LadderFile(settings.escalation)
    component = Group(
        # Without a file there is nothing to read, and who hangs up ends it as ever.
        *([OnHangUp(ladders.read_again)] if settings.escalation else ()),
        Resource("store", lambda: _open(store, clock), store.close),
        clock.component(),
        Resource("bus", bus.start, bus.close),
        Resource("installation", installation, _nothing),
        assemble(bus, store, clock, SystemEntropy(), telemetry, settings, ladders=ladders),
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

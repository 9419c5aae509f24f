"""The main of a service: settings, signals, start, drain, stop, and the exit code."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import partial
from typing import Protocol, Self, TypeVar

from warrener_runtime import log_output
from warrener_runtime.backoff import ExponentialBackoff, FailureStreak, is_marked_outage
from warrener_runtime.bus import Bus, TopologyMismatch, open_bus
from warrener_runtime.bus.port import BusError
from warrener_runtime.clock import Clock, Entropy, SystemEntropy
from warrener_runtime.database_clock import DatabaseClock
from warrener_runtime.health import (
    Check,
    ConsumerStalled,
    HealthRegistry,
    HealthServer,
    NotReady,
    Readiness,
    current_health_registry,
)
from warrener_runtime.keys import load_signer
from warrener_runtime.lifecycle import gc_tuning
from warrener_runtime.lifecycle.components import Component, Group, Resource
from warrener_runtime.lifecycle.declaring import declare_when_permitted
from warrener_runtime.logs import get_logger
from warrener_runtime.settings import ServiceSettings, SettingsError, load
from warrener_runtime.telemetry import Telemetry

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = get_logger("service")
_HURRY_SECONDS = 8.0  # for releasing running work, so that other replicas need not detect its loss
_STOP_SECONDS = 10.0  # closing connections takes no longer
S = TypeVar("S", bound=ServiceSettings)
Refusals = tuple[type[Exception], ...]


class StopSignals:
    """Counts SIGTERM and SIGINT: stop, hurry, abort. Used with `with`, inside a running loop."""

    def __init__(self) -> None:
        self.stop_requested = asyncio.Event()
        self.hurry_requested = asyncio.Event()
        self.abort_requested = asyncio.Event()
        self.name = ""

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._receive, number)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def _receive(self, number: signal.Signals) -> None:
        if self.hurry_requested.is_set():
            self.abort_requested.set()
        if self.stop_requested.is_set():
            self.hurry_requested.set()
        self.name = number.name
        self.stop_requested.set()


@dataclass(frozen=True)
class Service:
    """A service's component, and the checks that must pass for it to be ready. Consumers check themselves."""

    component: Component
    ready: Mapping[str, Check] = field(default_factory=dict[str, Check])


class Database(Protocol):
    """The store or the ledger of a service."""

    async def start(self) -> None: ...
    async def time(self) -> datetime: ...
    async def ping(self) -> None: ...
    async def close(self) -> None: ...


def on_broker_and_database(
    name: str,
    settings: ServiceSettings,
    telemetry: Telemetry,
    database: Database,
    assemble: Callable[[Bus, Clock, Entropy], Component],
    *,
    database_name: str = "store",
    signs: str | None = None,
    claim: Callable[..., Awaitable[None]] | None = None,
    first: Sequence[Component] = (),
    connections: int = 3,
    names_user: bool = False,
) -> Service:
    """Put the service that `assemble` returns on RabbitMQ and its database, which start before it.

    `claim` is `claim_namespace` of a store. `signs`: the exchange whose messages it signs, if it has a key.
    `first` starts before all else. `connections`: see RabbitBus. `names_user`: True if all messages name the
    broker's user as their sender.
    """
    clock, entropy = DatabaseClock(database.time), SystemEntropy()
    bus = open_bus(
        settings.broker_url,
        name=name,
        namespace=settings.namespace,
        connections=connections,
        metrics=telemetry.metrics,
        signer=None if signs is None else load_signer(settings.signing_key_file, signs),
        declare=settings.declare,
        user_id=settings.sender if names_user else None,
    )

    installation: list[Component] = []
    if claim is not None:
        claimed = partial(
            claim,
            bus.claim,
            candidate=entropy.new_id(),
            refused=TopologyMismatch,
            namespace=settings.namespace,
        )
        declared = partial(declare_when_permitted, "installation", claimed, clock)
        installation.append(Resource("installation", declared))
    component = Group(
        *first,
        Resource(database_name, partial(_start_database, database_name, database, clock), database.close),
        clock.component(),
        Resource("bus", bus.start, bus.close),
        *installation,
        assemble(bus, clock, entropy),
        name="production",
    )
    return Service(component, {"broker": bus.ping, database_name: database.ping, "clock": clock.check})


async def _start_database(name: str, database: Database, clock: Clock) -> None:
    """Start the database as soon as it answers; an error that waiting cannot mend is raised at once."""
    backoff, streak = ExponentialBackoff(first=0.2, ceiling=5.0), FailureStreak(log)
    while True:
        try:
            await database.start()
        except Exception as error:
            if not is_marked_outage(error):
                raise
            text = f"The {name} does not answer yet; waiting for it."
            streak.failed(error, text, clock.monotonic(), action=f"{name}.waiting")
            await clock.sleep(backoff.failed())
        else:
            return streak.recovered(f"The {name} answers.", clock.monotonic(), action=f"{name}.answers")


class ServiceExitCode(IntEnum):
    """Exit codes of a service."""

    CLEAN = 0
    FAILURE = 1
    SETTINGS = 2
    STALLED = 70  # a supervisor (systemd, Kubernetes, `warrener up`) starts a fresh process
    BLOCKED = 71  # likewise; the event loop is blocked, so a thread ends the process


class ServiceRunner:
    """Builds, starts, watches, drains and stops a service. Call `run` once."""

    def __init__(
        self,
        name: str,
        settings: ServiceSettings,
        build: Callable[[Telemetry], Awaitable[Service]],
        gc_thresholds: gc_tuning.GcThresholds,
        refusals: Refusals,
    ) -> None:
        self._name = name
        self._refusals = refusals
        self._settings = settings
        self._build = build
        self._gc_thresholds = gc_thresholds
        self._health_registry = HealthRegistry(
            consumer_stall_timeout=settings.consumer_stall_timeout, release_timeout=settings.release_timeout
        )
        self._service: Service | None = None
        self._phase = "starting"

    async def run(self) -> int:
        """Run the service; return its exit code. Raises one of the refusals if it cannot be built from its
        settings."""
        current_health_registry.set(self._health_registry)
        for hint in self._settings.hints:
            log.warning(f"A setting may be mistaken: {hint}.", action="settings.hint")
        telemetry = Telemetry.from_settings(self._name, self._settings)
        health = self._health(telemetry)
        try:
            with StopSignals() as signals:
                await health.start()
                return await self._live(telemetry, signals)
        except self._refusals:
            raise
        except (BusError, OSError) as error:  # an outage: a traceback would hide the sentence
            log.error("The service cannot work and ends.", action="service.failed", reason=str(error))  # noqa: TRY400
            return ServiceExitCode.FAILURE
        except Exception:
            log.exception("The service failed and ends.", action="service.failed")
            return ServiceExitCode.FAILURE
        finally:
            await health.stop()
            await telemetry.shutdown()

    async def _live(self, telemetry: Telemetry, signals: StopSignals) -> int:
        starting = asyncio.create_task(self._start(telemetry), name="start service")
        stop_requested = asyncio.create_task(signals.stop_requested.wait(), name="stop signal")
        await asyncio.wait({starting, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            log.info("Stopped before it had started.", action="service.stopped", signal=signals.name)
            return ServiceExitCode.CLEAN
        service = await starting
        self._phase = "serving"
        log.info("The service has started.", action="service.started")
        code = await self._wait_until_over(stop_requested, signals)
        return await self._end(service.component, signals, code)

    async def _start(self, telemetry: Telemetry) -> Service:
        service = await self._build(telemetry)
        gc_tuning.freeze(self._gc_thresholds)
        await service.component.start()
        self._service = service
        return service

    async def _wait_until_over(
        self, stop_requested: "asyncio.Task[bool]", signals: StopSignals
    ) -> ServiceExitCode:
        given_up = asyncio.create_task(self._health_registry.wait_given_up(), name="vitals")
        await asyncio.wait({stop_requested, given_up}, return_when=asyncio.FIRST_COMPLETED)
        if stop_requested.done():
            given_up.cancel()
            log.info(
                "First signal: finishing running work, taking nothing new.",
                action="service.draining",
                signal=signals.name,
                grace=self._settings.shutdown_timeout,
            )
            return ServiceExitCode.CLEAN
        stop_requested.cancel()
        reason = await given_up
        log.error(
            "The service gave up, so that a fresh process takes its place.",
            action="service.gave_up",
            reason=str(reason),
        )
        return ServiceExitCode.STALLED if isinstance(reason, ConsumerStalled) else ServiceExitCode.FAILURE

    async def _end(
        self, component: Component, signals: StopSignals, code: ServiceExitCode
    ) -> ServiceExitCode:
        self._phase = "draining"
        drained = await self._drain(component, signals)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await component.stop()
        except TimeoutError:
            log.warning(
                "The service did not stop in time.", action="service.stop_timeout", seconds=_STOP_SECONDS
            )
            return code or ServiceExitCode.FAILURE
        except Exception:
            log.exception("The service did not stop cleanly.", action="service.stop_failed")
            return code or ServiceExitCode.FAILURE
        log.info("The service has ended.", action="service.stopped", drained=drained, code=int(code))
        return code

    async def _drain(self, component: Component, signals: StopSignals) -> bool:
        """Drain; return True if all running work finished. Unfinished work goes back to its queue."""
        draining = asyncio.create_task(component.drain(), name="drain service")
        hurry_requested = asyncio.create_task(signals.hurry_requested.wait(), name="second signal")
        await asyncio.wait(
            {draining, hurry_requested},
            timeout=self._settings.shutdown_timeout,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if hurry_requested.done() and not draining.done() and self._health_registry.hurry():
            log.info("Second signal: releasing running work.", action="service.releasing")
            abort_requested = asyncio.create_task(signals.abort_requested.wait(), name="third signal")
            await asyncio.wait(
                {draining, abort_requested}, timeout=_HURRY_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            abort_requested.cancel()
        hurry_requested.cancel()
        if not draining.done():
            draining.cancel()
            await asyncio.wait({draining}, timeout=_STOP_SECONDS)
            log.warning(
                "Running work was not finished in time and is abandoned.",
                action="service.work_abandoned",
                signal=signals.name,
            )
            return False
        if error := draining.exception():
            log.error("Draining failed; stopping now.", action="service.drain_failed", error=str(error))
            return False
        return True

    def _health(self, telemetry: Telemetry) -> Component:
        port = self._settings.health_port
        if not port:
            return Group(name="no health server")
        server = HealthServer(
            self._name,
            Readiness(self._checks),
            host=self._settings.health_host,
            port=port,
            metrics=telemetry.metrics_text,
        )
        return Resource("health", server.open, server.close)

    def _checks(self) -> Mapping[str, Check]:
        declared: Mapping[str, Check] = self._service.ready if self._service else {}
        return {"service": self._check_phase, **declared, **self._health_registry.checks}

    async def _check_phase(self) -> None:
        if self._phase != "serving":
            raise NotReady(f"it is {self._phase}")


def main(
    name: str,
    kind: type[S],
    build: Callable[[S, Telemetry], Awaitable[Service]],
    overrides: Mapping[str, object] | None = None,
    *,
    gc_thresholds: gc_tuning.GcThresholds = gc_tuning.FREQUENT,
    refusals: Refusals = (),
) -> int:
    """Load the settings and serve. Settings that cannot be used are explained on standard error.

    `gc_thresholds` sets how often garbage is collected: `gc_tuning.RARE` is for services that run no user
    code. Errors of the types `refusals` are explained like settings that cannot be used.
    """
    try:
        settings = load(kind, **(overrides or {}))
    except SettingsError as error:
        return _explain(name, error)
    return serve(
        name,
        settings,
        lambda telemetry: build(settings, telemetry),
        gc_thresholds=gc_thresholds,
        refusals=refusals,
    )


def serve(
    name: str,
    settings: ServiceSettings,
    build: Callable[[Telemetry], Awaitable[Service]],
    *,
    gc_thresholds: gc_tuning.GcThresholds = gc_tuning.FREQUENT,
    refusals: Refusals = (),
) -> int:
    """Run a service until SIGTERM or SIGINT, then drain it within `shutdown_timeout`, then stop it.

    A second signal hurries the drain if a part of the service can hurry, and ends it otherwise; a third one
    ends it in any case. The exit code is 0 after a clean end, 1 if the service could not start or stop, 2
    if its settings cannot be used, and 70 if it received nothing for too long and gave up. A service that
    watches its own loop ends with 71 if that is blocked.
    """
    log_output.configure(
        name, level=settings.log_level, format=settings.log_format, scope_level=settings.scope_log_level
    )
    refusals = (SettingsError, *refusals)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(ServiceRunner(name, settings, build, gc_thresholds, refusals).run())
    except refusals as error:
        return _explain(name, error)


def _explain(name: str, error: Exception) -> int:
    print(f"{name} cannot start with these settings:\n{error}", file=sys.stderr)
    return ServiceExitCode.SETTINGS


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - optional: faster where it is installed
    except ImportError:
        return None
    return uvloop.new_event_loop

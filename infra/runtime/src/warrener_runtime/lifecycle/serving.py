"""One service from its first to its last moment."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum

from warrener_runtime.bus.port import BusError
from warrener_runtime.health import HealthServer, Readiness
from warrener_runtime.lifecycle import heap
from warrener_runtime.lifecycle.component import Component
from warrener_runtime.lifecycle.group import Group
from warrener_runtime.lifecycle.resource import Resource
from warrener_runtime.lifecycle.service import Service
from warrener_runtime.lifecycle.signals import StopSignals
from warrener_runtime.lifecycle.vitals import Check, Deaf, NotReady, Vitals, vitals_here
from warrener_runtime.logs import get_logger
from warrener_runtime.settings import ServiceSettings, SettingsError, mask
from warrener_runtime.telemetry import Telemetry

log = get_logger("service")

_HURRY_SECONDS = 8.0  # for giving back what runs, so that others need not find out that it is gone
_STOP_SECONDS = 10.0  # letting go is closing connections; what takes longer will not come back


class Exit(IntEnum):
    """Exit codes of a service."""

    CLEAN = 0
    FAILURE = 1
    SETTINGS = 2
    DEAF = 70  # a supervisor (systemd, Kubernetes, `warrener up`) starts a fresh process
    BLOCKED = 71  # likewise; the event loop itself no longer turns, so somebody else must say so


class Serving:
    """Builds, starts, watches, drains and stops a service; `run` once."""

    def __init__(
        self,
        name: str,
        settings: ServiceSettings,
        build: Callable[[Telemetry], Awaitable[Service]],
        looks: heap.Looks,
    ) -> None:
        self._name = name
        self._settings = settings
        self._build = build
        self._looks = looks
        self._vitals = Vitals(
            give_up_deaf_after=settings.give_up_deaf_after, give_back_timeout=settings.give_back_timeout
        )
        self._service: Service | None = None
        self._phase = "starting"

    async def run(self) -> int:
        """The exit code. Raises SettingsError if the service cannot be built from its settings."""
        vitals_here.set(self._vitals)
        self._say_hints()
        telemetry = Telemetry.of(self._name, self._settings)
        health = self._health()
        try:
            with StopSignals() as signals:
                await health.start()
                return await self._live(telemetry, signals)
        except SettingsError:
            raise
        except (BusError, OSError) as error:  # the world's fault: a traceback would hide the sentence
            log.error("The service cannot work and ends.", action="service.failed", reason=mask(str(error)))  # noqa: TRY400
            return Exit.FAILURE
        except Exception:
            log.exception("The service failed and ends.", action="service.failed")
            return Exit.FAILURE
        finally:
            await health.stop()
            await telemetry.shutdown()

    async def _live(self, telemetry: Telemetry, signals: StopSignals) -> int:
        starting = asyncio.create_task(self._start(telemetry), name="start service")
        asked = asyncio.create_task(signals.asked.wait(), name="stop signal")
        await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            log.info("Stopped before it had started.", action="service.stopped", signal=signals.name)
            return Exit.CLEAN
        service = await starting
        self._phase = "serving"
        log.info("The service works.", action="service.started")
        code = await self._until_over(asked, signals)
        return await self._end(service.component, signals, code)

    async def _start(self, telemetry: Telemetry) -> Service:
        service = await self._build(telemetry)
        heap.set_aside(self._looks)
        await service.component.start()
        self._service = service
        return service

    async def _until_over(self, asked: "asyncio.Task[bool]", signals: StopSignals) -> Exit:
        given_up = asyncio.create_task(self._vitals.until_given_up(), name="vitals")
        await asyncio.wait({asked, given_up}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            given_up.cancel()
            log.info(
                "Asked to end: finishing what runs, taking nothing new.",
                action="service.draining",
                signal=signals.name,
                grace=self._settings.drain_grace,
            )
            return Exit.CLEAN
        asked.cancel()
        reason = await given_up
        log.error(
            "The service gives up, so that a fresh process takes its place.",
            action="service.gave_up",
            reason=str(reason),
        )
        return Exit.DEAF if isinstance(reason, Deaf) else Exit.FAILURE

    async def _end(self, component: Component, signals: StopSignals, code: Exit) -> Exit:
        self._phase = "draining"
        drained = await self._drain(component, signals)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await component.stop()
        except TimeoutError:
            log.warning(
                "The service did not let go in time.", action="service.stop_timeout", seconds=_STOP_SECONDS
            )
            return code or Exit.FAILURE
        except Exception:
            log.exception("The service did not stop cleanly.", action="service.stop_failed")
            return code or Exit.FAILURE
        log.info("The service has ended.", action="service.stopped", drained=drained, code=int(code))
        return code

    async def _drain(self, component: Component, signals: StopSignals) -> bool:
        """Whether all that ran was finished; what was not goes back to its queue."""
        draining = asyncio.create_task(component.drain(), name="drain service")
        insisted = asyncio.create_task(signals.insisted.wait(), name="second signal")
        await asyncio.wait(
            {draining, insisted}, timeout=self._settings.drain_grace, return_when=asyncio.FIRST_COMPLETED
        )
        if insisted.done() and not draining.done() and self._vitals.hurry():
            log.info("Asked again: what runs is given back at once.", action="service.hurrying")
            demanded = asyncio.create_task(signals.demanded.wait(), name="third signal")
            await asyncio.wait(
                {draining, demanded}, timeout=_HURRY_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            demanded.cancel()
        insisted.cancel()
        if not draining.done():
            draining.cancel()
            await asyncio.wait({draining}, timeout=_STOP_SECONDS)
            log.warning(
                "What runs was not finished in time and is let go.",
                action="service.hurried",
                signal=signals.name,
            )
            return False
        if error := draining.exception():
            log.error("Draining failed; stopping now.", action="service.drain_failed", error=str(error))
            return False
        return True

    def _health(self) -> Component:
        port = self._settings.health_port
        if not port:
            return Group(name="no health server")
        server = HealthServer(self._name, Readiness(self._checks), host=self._settings.health_host, port=port)
        return Resource("health", server.open, server.close)

    def _checks(self) -> Mapping[str, Check]:
        declared: Mapping[str, Check] = self._service.ready if self._service else {}
        return {"service": self._check_phase, **declared, **self._vitals.checks}

    async def _check_phase(self) -> None:
        if self._phase != "serving":
            raise NotReady(f"it is {self._phase}")

    def _say_hints(self) -> None:
        for hint in self._settings.hints:
            log.warning(f"A setting may be mistaken: {hint}.", action="settings.hint")

"""The main of a service: from its settings to its exit code."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from warrener_runtime import logs
from warrener_runtime.lifecycle import gc_tuning
from warrener_runtime.lifecycle.runner import ServiceExitCode, ServiceRunner
from warrener_runtime.lifecycle.service import Service
from warrener_runtime.settings import ServiceSettings, SettingsError, load
from warrener_runtime.telemetry import Telemetry

S = TypeVar("S", bound=ServiceSettings)


def main(
    name: str,
    kind: type[S],
    build: Callable[[S, Telemetry], Awaitable[Service]],
    overrides: Mapping[str, object] | None = None,
    *,
    gc_thresholds: gc_tuning.GcThresholds = gc_tuning.FREQUENT,
) -> int:
    """Load the settings and serve. Settings that cannot be used are explained on standard error.

    `gc_thresholds` says how often garbage is looked for: `gc_tuning.RARE` is for services that run no code of
    others.
    """
    try:
        settings = load(kind, **(overrides or {}))
    except SettingsError as error:
        return _explain(name, error)
    return serve(name, settings, lambda telemetry: build(settings, telemetry), gc_thresholds=gc_thresholds)


def serve(
    name: str,
    settings: ServiceSettings,
    build: Callable[[Telemetry], Awaitable[Service]],
    *,
    gc_thresholds: gc_tuning.GcThresholds = gc_tuning.FREQUENT,
) -> int:
    """Run a service until SIGTERM or SIGINT, then drain it within `drain_grace`, then stop it.

    A second signal hurries the drain where a part of the service can hurry, and ends it where none can; a
    third one ends it in any case. The exit code is 0 after a clean end, 1 if the service could not start or
    stop, 2 if its settings cannot be used, and 70 if it was deaf for too long and gave up. A
    service that watches over its own loop ends with 71 if that is blocked.
    """
    logs.configure(name, level=settings.log_level, format=settings.log_format)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(ServiceRunner(name, settings, build, gc_thresholds).run())
    except SettingsError as error:
        return _explain(name, error)


def _explain(name: str, error: SettingsError) -> int:
    print(f"{name} cannot start with these settings:\n{error}", file=sys.stderr)
    return ServiceExitCode.SETTINGS


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - faster where it is to be had, not needed where it is not
    except ImportError:
        return None
    return uvloop.new_event_loop

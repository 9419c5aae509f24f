"""The server of the console: its socket, uvicorn as a component, and all parts from start to stop."""

import asyncio
import contextlib
import gc
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from warrener.context import ResolvedEndpoints
from warrener.errors import CommandError, ExitCode
from warrener.web.access.sessions import SessionGuard
from warrener.web.access.setup import build_guard
from warrener.web.app import create_app
from warrener.web.connections import ConnectionLimits, bounded_protocol
from warrener.web.console import Console
from warrener.web.live.event_consumer import EventConsumer
from warrener.web.live.hub import Hub
from warrener.web.settings import ConsoleSettings
from warrener.web.site import installed_site
from warrener_runtime.lifecycle import gc_tuning
from warrener_runtime.lifecycle.components import Group, ManagedComponent, Resource, cancel
from warrener_runtime.lifecycle.run import Service, serve
from warrener_runtime.settings import SettingsError, load
from warrener_store import open_store

NAME = "warrener-console"
_CLOSE_TIMEOUT = 5  # seconds for open requests


def load_settings(**overrides: object) -> ConsoleSettings:
    """Load the settings; overrides of None are none. Raises CommandError."""
    try:
        return load(ConsoleSettings, **overrides)
    except SettingsError as error:
        raise CommandError(str(error), code=ExitCode.USAGE) from error


def endpoints_of(settings: ConsoleSettings) -> ResolvedEndpoints:
    """The endpoints of the settings alone."""
    return ResolvedEndpoints(
        settings.broker_url,
        settings.store_url,
        settings.ledger_url,
        from_up=False,
        management_url=settings.management_url,
        namespace=settings.namespace,
    )


def serve_console(listener: socket.socket, endpoints: ResolvedEndpoints, settings: ConsoleSettings) -> int:
    """Serve until a signal ends the process; return the exit code."""
    gc.enable()  # the command begins without it
    return serve(NAME, settings, lambda _: build(listener, endpoints, settings), gc_thresholds=gc_tuning.RARE)


async def build(listener: socket.socket, endpoints: ResolvedEndpoints, settings: ConsoleSettings) -> Service:
    """Build the console from its listening socket, its endpoints and its settings."""
    store = open_store(endpoints.store_url)
    console = Console(store, endpoints, settings)
    guard = build_guard(console, settings, settings.console_host)
    provider = guard.provider if isinstance(guard, SessionGuard) else None
    app = create_app(console, installed_site(), guard)
    hub: Hub = app.state.hub
    return Service(
        Group(
            Resource("store", store.start, store.close),
            Resource("client", _nothing, console.close),
            Resource("issuer", _nothing, _nothing if provider is None else provider.close),
            hub,
            EventConsumer(endpoints.broker_url, namespace=endpoints.namespace, hub=hub),
            WebServer(app, listener, hub, settings),
            name=NAME,
        ),
        ready={"store": store.ping},
    )


async def _nothing() -> None:
    """Connect at the first action."""


class WebServer(ManagedComponent):
    """Serves the application by uvicorn. A drain ends the streams first: they never end by themselves."""

    def __init__(
        self, app: FastAPI, listener: socket.socket, hub: Hub, settings: ConsoleSettings | None = None
    ) -> None:
        super().__init__("web server")
        settings = settings or ConsoleSettings()
        trusted_proxies = settings.console_trusted_proxies
        limits = ConnectionLimits(
            settings.console_connection_limit, settings.console_address_connection_limit, trusted_proxies
        )
        self._listener, self._hub = listener, hub
        self._server = QuietServer(
            uvicorn.Config(
                app,
                http=bounded_protocol(limits),
                limit_concurrency=2 * limits.limit,  # those that were closed count for a moment
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                timeout_graceful_shutdown=_CLOSE_TIMEOUT,
            )
        )
        self._serving: asyncio.Task[None] | None = None

    async def _on_start(self) -> None:
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listener]), name=self.name)
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._serving.done():
            await self._serving

    async def _on_drain(self) -> None:
        await self._hub.drain()
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait({self._serving})

    async def _on_stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        if self._serving is not None:
            await asyncio.wait({self._serving}, timeout=_CLOSE_TIMEOUT)
            await cancel(self._serving)
        with contextlib.suppress(OSError):
            self._listener.close()


class QuietServer(uvicorn.Server):
    """Leaves the signals to the service, and notes that it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield

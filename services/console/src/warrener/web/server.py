"""The server of the console: uvicorn as a component, its connections, and all parts from start to stop."""

import asyncio
import gc
import resource
import socket
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from ipaddress import ip_address, ip_network
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from warrener.context import ResolvedEndpoints
from warrener.errors import UsageError
from warrener.web.access.guard import OpenGuard
from warrener.web.access.origins import network_of
from warrener.web.access.sessions import SessionGuard, build_guard
from warrener.web.app import create_app
from warrener.web.console import Console
from warrener.web.listener import is_own_connection
from warrener.web.live.event_consumer import EventConsumer
from warrener.web.live.hub import Hub
from warrener.web.settings import ConsoleSettings
from warrener.web.site import installed_site
from warrener_runtime.lifecycle import gc_tuning
from warrener_runtime.lifecycle.components import Group, ManagedComponent, Resource, cancel
from warrener_runtime.lifecycle.run import Service, serve
from warrener_runtime.logs import get_logger
from warrener_runtime.settings import SettingsError, load
from warrener_store import open_store

_log = get_logger("console.server")

NAME = "warrener-console"
_CLOSE_TIMEOUT = 5  # seconds for open requests


def load_settings(**overrides: object) -> ConsoleSettings:
    """Load the settings; overrides of None are none. Raises CommandError."""
    try:
        return load(ConsoleSettings, **overrides)
    except SettingsError as error:
        raise UsageError(str(error)) from error


def serve_console(listener: socket.socket, endpoints: ResolvedEndpoints, settings: ConsoleSettings) -> int:
    """Serve until a signal ends the process; return the exit code."""
    gc.enable()  # the command begins without it
    return serve(NAME, settings, lambda _: build(listener, endpoints, settings), gc_thresholds=gc_tuning.RARE)


async def build(listener: socket.socket, endpoints: ResolvedEndpoints, settings: ConsoleSettings) -> Service:
    """Build the console from its listening socket, its endpoints and its settings."""
    store = open_store(endpoints.store_url)
    console = Console(store, endpoints, settings)
    guard = build_guard(console)
    provider = guard.provider if isinstance(guard, SessionGuard) else None
    app = create_app(console, installed_site(), guard)
    hub: Hub = app.state.hub
    return Service(
        Group(
            Resource("store", store.start, store.close),
            Resource("client", _nothing, console.close),
            Resource("issuer", _nothing, _nothing if provider is None else provider.close),
            hub,
            EventConsumer(
                endpoints.broker_url, namespace=endpoints.namespace, hub=hub, declare=settings.declare
            ),
            WebServer(app, listener, hub, settings, own_user_only=isinstance(guard, OpenGuard)),
            name=NAME,
        ),
        ready={"store": store.ping},
    )


async def _nothing() -> None:
    """Connect at the first action."""


class WebServer(ManagedComponent):
    """Serves the application by uvicorn. A drain ends the streams first: they never end by themselves."""

    def __init__(
        self,
        app: FastAPI,
        listener: socket.socket,
        hub: Hub,
        settings: ConsoleSettings,
        *,
        own_user_only: bool = False,
    ) -> None:
        super().__init__("web server")
        trusted_proxies = settings.console_trusted_proxies
        limits = ConnectionLimits(
            settings.console_connection_limit, settings.console_address_connection_limit, trusted_proxies
        )
        self._listener, self._hub = listener, hub
        self._server = QuietServer(
            uvicorn.Config(
                app,
                http=type(
                    "ServedConnection", (BoundedProtocol,), {"limits": limits, "own_user_only": own_user_only}
                ),
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
        with suppress(OSError):
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


# -- connections -------------------------------------------------------------------------------------------

_HEADERS_TIMEOUT = 10.0
"""Seconds from the first byte of a request, or the connection, to the end of its headers."""
_REPORT_INTERVAL = 60.0  # seconds between two log lines about connections of other users
_OTHER_FILES = 200  # of the process: static files, the store, the broker, the log


class ConnectionLimits:
    """Counts the open connections of a server: their number, and that of one address.

    A connection without a request costs a sender nothing and the console a file. So a new one takes the place
    of the oldest without a request, of its own address if that has its share; requests in progress stay.
    """

    def __init__(self, limit: int, address_limit: int, shared: Iterable[str] = ()) -> None:
        """`shared`: addresses of proxies, which have no share of their own but the whole."""
        self.limit = min(limit, _files() - _OTHER_FILES)
        self._address_limit = min(address_limit, self.limit)
        self._shared = tuple(shared)
        self._open: dict[BoundedProtocol, str] = {}  # in the order of their beginnings
        self._foreign, self._report_due = 0, 0.0

    def admit(self, connection: "BoundedProtocol", address: str) -> bool:
        """True if the connection may stay; room is made among those without a request."""
        network = network_of(address)
        own = [one for one, other in self._open.items() if other == network]
        is_over = len(own) >= self._address_limit and not self._is_shared(address)
        if is_over and not _close_idle(own):
            return False
        if len(self._open) >= self.limit and not _close_idle(list(self._open)):
            return False
        self._open[connection] = network
        return True

    def _is_shared(self, address: str) -> bool:
        with suppress(ValueError):
            found = ip_address(address)
            return any(one == "*" or found in ip_network(one, strict=False) for one in self._shared)
        return False

    def forget(self, connection: "BoundedProtocol") -> None:
        self._open.pop(connection, None)

    def report_foreign(self, now: float) -> None:
        """Log connections of other users of this machine that were closed, at most once a minute."""
        self._foreign += 1
        if now >= self._report_due:
            _log.warning(
                "A connection of another user of this machine was closed: this console has no sign-in.",
                action="console.foreign_user",
                connections=self._foreign,
            )
            self._foreign, self._report_due = 0, now + _REPORT_INTERVAL


def _close_idle(connections: Iterable["BoundedProtocol"]) -> bool:
    """Close the oldest of these that has no request in progress; False if all have."""
    idle = next((one for one in connections if one.is_idle), None)
    if idle is not None:
        idle.abort()
    return idle is not None


def _files() -> int:
    """The files that this process may open, after its soft limit was raised to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(soft, 2 * _OTHER_FILES)


class BoundedProtocol(H11Protocol):
    """One connection of a browser. A subclass for each server names its limits."""

    limits: ConnectionLimits
    own_user_only = False
    """True if nobody signs in: other users of this machine are kept out."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._headers_due: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """True if no request is in progress: its headers have not arrived, or its answer is complete."""
        return not self.cycle or self.cycle.response_complete

    def abort(self) -> None:
        self.limits.forget(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        if self.own_user_only and not is_own_connection(transport.get_extra_info("socket")):
            self.limits.report_foreign(self.loop.time())
            transport.abort()
        elif self.limits.admit(self, self.client[0] if self.client else ""):
            self._await_headers()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.is_idle:
            self._stop_waiting()
        elif self._headers_due is None and not self.transport.is_closing():
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.limits.forget(self)
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._headers_due = self.loop.call_later(_HEADERS_TIMEOUT, self._end_if_idle)

    def _stop_waiting(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _end_if_idle(self) -> None:
        self._headers_due = None
        if self.is_idle:
            self.abort()

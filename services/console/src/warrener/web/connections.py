"""Bounds the connections of browsers: their number, that of one address, and the time of a request's headers.

A connection without a request costs a sender nothing and the console a file. So a new one takes the place of
the oldest without a request, of its own address if that has its share; requests in progress stay.
"""

import asyncio
import resource
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from warrener.web.access.rate_limit import network_of

HEADERS_TIMEOUT = 10.0
"""Seconds from the first byte of a request, or the connection, to the end of its headers."""
_OTHER_FILES = 200  # of the process: static files, the store, the broker, the log


class ConnectionLimits:
    """Counts the open connections, and closes those that may be closed. One for each server."""

    def __init__(self, limit: int, address_limit: int, shared: Iterable[str] = ()) -> None:
        """`shared`: addresses of proxies, which have no share of their own but the whole."""
        self.limit = min(limit, _files() - _OTHER_FILES)
        self._address_limit = min(address_limit, self.limit)
        self._shared = tuple(shared)
        self._open: dict[BoundedProtocol, str] = {}  # in the order of their beginnings

    def admit(self, connection: "BoundedProtocol", address: str) -> bool:
        """True if the connection may stay; room is made among those without a request."""
        network = network_of(address)
        own = [one for one, other in self._open.items() if other == network]
        is_over = len(own) >= self._address_limit and not _is_among(self._shared, address)
        if is_over and not _close_idle(own):
            return False
        if len(self._open) >= self.limit and not _close_idle(list(self._open)):
            return False
        self._open[connection] = network
        return True

    def forget(self, connection: "BoundedProtocol") -> None:
        """Note the end of a connection."""
        self._open.pop(connection, None)


def _is_among(proxies: Iterable[str], address: str) -> bool:
    with suppress(ValueError):
        found = ip_address(address)
        return any(one == "*" or found in ip_network(one, strict=False) for one in proxies)
    return False


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

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._headers_due: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """True if no request is in progress: its headers have not arrived, or its answer is complete."""
        return not self.cycle or self.cycle.response_complete

    def abort(self) -> None:
        """Close the connection at once."""
        self.limits.forget(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin, or close at once if there are too many."""
        super().connection_made(transport)
        if self.limits.admit(self, self.client[0] if self.client else ""):
            self._await_headers()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        super().data_received(data)
        if not self.is_idle:
            self._stop_waiting()
        elif self._headers_due is None and not self.transport.is_closing():
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stop_waiting()
        self.limits.forget(self)
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._headers_due = self.loop.call_later(HEADERS_TIMEOUT, self._end_if_idle)

    def _stop_waiting(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _end_if_idle(self) -> None:
        self._headers_due = None
        if self.is_idle:
            self.abort()


def bounded_protocol(limits: ConnectionLimits) -> type[BoundedProtocol]:
    """Make the class of a server's connections."""
    return type("ServedConnection", (BoundedProtocol,), {"limits": limits})

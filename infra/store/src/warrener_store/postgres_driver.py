"""How connections to PostgreSQL are opened and closed: asyncpg's own, with limits on both sides of each."""

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from warrener_store.address import PostgresAddress

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone
else:
    Connection = asyncpg.Connection

_CONNECT_SECONDS = 5
_CHECK_SECONDS = 3
_CLOSE_SECONDS = 2
RESPONSE_TIMEOUT = 8.0
"""Seconds after which a server that says nothing is taken to be gone, or the network to it."""
_IDLE, _INTERVAL, _PROBES, _UNACKNOWLEDGED = 4, 2, 2, 8
"""TCP: seconds without traffic before the first probe, between probes, how many go unanswered, and how long
sent data may stay unacknowledged. A peer that is gone is noticed within eight seconds."""
_LIMITS = {
    "tcp_keepalives_idle": str(_IDLE),
    "tcp_keepalives_interval": str(_INTERVAL),
    "tcp_keepalives_count": str(_PROBES),
    "tcp_user_timeout": f"{_UNACKNOWLEDGED}s",
    "statement_timeout": "7s",  # before the client gives it up
    "lock_timeout": "3s",  # rows are locked for one statement: for milliseconds
    "idle_in_transaction_session_timeout": "5s",  # no transaction of the store waits for its client
}
_TRANSACTION_LIMIT = "SET transaction_timeout = '10s'"
"""Since PostgreSQL 17: also for one that hangs in the middle of a message, which counts as not idle."""
_SINCE = 17


class _Connection(Connection):
    """Notices by itself that its server is gone."""

    _transport: asyncio.BaseTransport  # asyncpg's own, which its stubs leave out

    def watch_peer(self) -> None:
        """Set the limits of TCP, as far as this platform has them."""
        one: socket.socket | None = self._transport.get_extra_info("socket")
        if one is None or one.family not in (socket.AF_INET, socket.AF_INET6):
            return
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", _IDLE),
            ("TCP_KEEPINTVL", _INTERVAL),
            ("TCP_KEEPCNT", _PROBES),
            ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED * 1000),
        ):
            if (option := getattr(socket, name, None)) is not None:
                one.setsockopt(socket.IPPROTO_TCP, option, value)


class PostgresDriver:
    """Connections on which each statement is a transaction: no BEGIN, no COMMIT to wait for. A statement is
    prepared when it is first used."""

    def __init__(self, address: PostgresAddress, *, response_timeout: float = RESPONSE_TIMEOUT) -> None:
        self._address, self._response_timeout = address, response_timeout

    async def open(self) -> Connection:
        """A new one. Raises what asyncpg raises, in time."""
        wanted = dict(self._address.connect)
        wanted["server_settings"] = _LIMITS | wanted["server_settings"]
        connection: Connection = await asyncpg.connect(
            timeout=_CONNECT_SECONDS,
            command_timeout=self._response_timeout,
            max_cacheable_statement_size=0,  # however long a statement is, it is prepared once
            connection_class=_Connection,
            **wanted,
        )
        assert isinstance(connection, _Connection)
        connection.watch_peer()
        if connection.get_server_version().major >= _SINCE:
            await connection.execute(_TRANSACTION_LIMIT)
        return connection

    def is_broken(self, connection: Connection) -> bool:
        """Whether its server has hung up."""
        return connection.is_closed()

    async def is_alive(self, connection: Connection) -> bool:
        """Whether the server answers through it, and soon."""
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.fetchval("SELECT 1", timeout=_CHECK_SECONDS)
            return True
        return False

    def abort(self, connection: Connection) -> None:
        """Close one that does not answer, without waiting for anything."""
        with suppress(asyncpg.InterfaceError):
            connection.terminate()

    async def close(self, connection: Connection) -> None:
        """Close it; a statement that still runs is cancelled, if the server listens."""
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.close(timeout=_CLOSE_SECONDS)  # past that asyncpg hangs up

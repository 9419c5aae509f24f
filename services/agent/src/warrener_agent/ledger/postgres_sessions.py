"""Connections of the PostgreSQL ledger, none of which may hold others up: limits on both sides of each, and
an end without ceremony for one that does not answer."""

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Pool = asyncpg.Pool[asyncpg.Record]
    Connection = PoolConnectionProxy[asyncpg.Record]
    _Base = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone
else:
    _Base = asyncpg.Connection

ANSWER_TIMEOUT = 8.0
"""Seconds after which a server that does not answer a statement counts as gone."""
_CONNECT = 5.0
_CLOSE = 5.0
_SERVER = 6.0
"""Seconds after which the server gives a claim's statement up itself: before the client does."""
_LOCK = 0.3
"""Seconds that a claim's statement waits for a row: claims hold one for milliseconds."""
_IDLE, _INTERVAL, _PROBES, _UNACKNOWLEDGED = 4, 2, 2, 8
"""TCP: seconds without traffic before the first probe, between probes, how many go unanswered, and how long
sent data may stay unacknowledged. A peer that is gone is noticed within eight seconds."""

_BOTH = {
    "tcp_keepalives_idle": str(_IDLE),
    "tcp_keepalives_interval": str(_INTERVAL),
    "tcp_keepalives_count": str(_PROBES),
    "tcp_user_timeout": f"{_UNACKNOWLEDGED}s",
}
CLAIMS = _BOTH | {
    # Claims name their rows by key. A plan that was made while the table was small would read all of it, and
    # is kept while it grows.
    "enable_seqscan": "off",
    # One plan a statement from the first time on: another for each of the first batches would know how long
    # their arrays are, which changes nothing and costs more than the batch.
    "plan_cache_mode": "force_generic_plan",
    "lock_timeout": f"{_LOCK}s",
    "statement_timeout": f"{_SERVER:g}s",
    "idle_in_transaction_session_timeout": f"{_SERVER:g}s",
}
HANDLERS = _BOTH
"""What a handler's statements may take is the attempt's timeout: see PostgresTransaction."""


class _LedgerConnection(_Base):
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


async def open_pool(url: str, session: dict[str, str], *, min_size: int, max_size: int) -> "Pool":
    """A pool of connections with these settings. Raises what asyncpg raises."""
    return await asyncpg.create_pool(
        url,
        min_size=min_size,
        max_size=max_size,
        timeout=_CONNECT,
        command_timeout=ANSWER_TIMEOUT if session is CLAIMS else None,
        server_settings=session,
        connection_class=_LedgerConnection,
        init=_watch_peer,
        reset=_nothing_to_reset,
    )


async def fetch(pool: "Pool", statement: str, *values: Any) -> "list[asyncpg.Record]":
    """The rows of one statement, committed by itself. A connection that does not answer in time is closed
    without waiting for it, and so are the others that are idle before they are used again."""
    connection = await pool.acquire()
    try:
        return await connection.fetch(statement, *values)
    except (TimeoutError, asyncio.CancelledError):
        await terminate_connection(pool, connection)
        raise
    finally:
        await pool.release(connection)


async def close_pool(pool: "Pool") -> None:
    """Close all; those that still work for somebody are given a moment."""
    try:
        async with asyncio.timeout(_CLOSE):
            await pool.close()
    except TimeoutError:
        pool.terminate()


async def terminate_connection(pool: "Pool", connection: "Connection") -> None:
    """Close it at once; those that are idle may be as dead."""
    connection.terminate()
    await pool.expire_connections()


async def _watch_peer(connection: "_Base") -> None:
    assert isinstance(connection, _LedgerConnection)
    connection.watch_peer()


async def _nothing_to_reset(_: "_Base") -> None:
    """A claim leaves nothing behind in its session, and a handler's transaction cleans up after itself: that
    saves a round trip."""

"""Sessions of the PostgreSQL ledger: their limits, so that no peer, outage or lock blocks others."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from warrener_agent.ledger.port import LedgerUnavailable
from warrener_agent.ledger.rows import R
from warrener_agent.ledger.statements import ledger_statements
from warrener_contracts.postgres_address import PostgresAddress
from warrener_contracts.postgres_limits import PEER_SETTINGS, RESPONSE_TIMEOUT, session_settings, watch_peer
from warrener_contracts.postgres_sessions import open_session

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Records = list[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]
    Connection = PoolConnectionProxy[asyncpg.Record]
    _Base = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone
else:
    _Base = asyncpg.Connection

_CLOSE = 5.0
CLAIMS = {
    # Claims hold a row for milliseconds. The server cancels a statement before the client gives up.
    **session_settings(lock=0.3, statement=6, idle_transaction=6),
    # Claims name their rows by key. A plan made while the table is small would read all of it, and would stay
    # in use while the table grows.
    "enable_seqscan": "off",
    # One plan a statement from the start: a plan for each of the first batches would know the length of their
    # arrays, which changes nothing and costs more than the batch.
    "plan_cache_mode": "force_generic_plan",
}
HANDLERS = PEER_SETTINGS  # the attempt's timeout limits a handler's statements: see PostgresTransaction
_OUTAGES = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
    asyncpg.DiskFullError,
    asyncpg.OutOfMemoryError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, or a server that was made one
    asyncpg.IdleInTransactionSessionTimeoutError,
)


class _LedgerConnection(_Base):
    """A connection that notices when its server is gone."""

    _transport: asyncio.BaseTransport  # asyncpg's own, which its stubs leave out

    def watch_peer(self) -> None:
        """Set the limits of TCP."""
        watch_peer(self._transport.get_extra_info("socket"))


async def open_pool(
    address: PostgresAddress, session: Mapping[str, str], *, min_size: int, max_size: int
) -> "Pool":
    """Open a pool of connections with these settings. Raises asyncpg's errors."""

    async def connect(dsn: str | None = None, **options: Any) -> Any:
        del dsn
        return await open_session(address, asyncpg.connect, **options)

    return await asyncpg.create_pool(
        connect=connect,
        min_size=min_size,
        max_size=max_size,
        command_timeout=RESPONSE_TIMEOUT if session is CLAIMS else None,
        server_settings={**session, "application_name": address.application_name or "warrener-agent"},
        connection_class=_LedgerConnection,
        init=_watch_peer,
        reset=_nothing_to_reset,
    )


async def fetch(pool: "Pool", statement: str, *values: Any) -> "list[asyncpg.Record]":
    """Return the rows of one statement, committed by itself.

    A connection that does not answer in time is closed without waiting for it; idle ones are closed before
    they are used again.
    """
    connection = await pool.acquire()
    try:
        async with leave_read_only(pool):
            return await connection.fetch(statement, *values)
    except (TimeoutError, asyncio.CancelledError):
        await terminate_connection(pool, connection)
        raise
    finally:
        await pool.release(connection)


async def close_pool(pool: "Pool") -> None:
    """Close all connections; busy ones have a moment to finish."""
    try:
        async with asyncio.timeout(_CLOSE):
            await pool.close()
    except TimeoutError:
        pool.terminate()


async def terminate_connection(pool: "Pool", connection: "Connection") -> None:
    """Close a connection at once, and expire the idle ones, which may be as dead."""
    connection.terminate()
    await pool.expire_connections()


@asynccontextmanager
async def leave_read_only(pool: "Pool") -> AsyncGenerator[None]:
    """Expire all connections of the pool if their server refuses a write, as a standby does."""
    try:
        yield
    except asyncpg.ReadOnlySQLTransactionError:
        await pool.expire_connections()
        raise


async def _watch_peer(connection: "_Base") -> None:
    assert isinstance(connection, _LedgerConnection)
    connection.watch_peer()


async def _nothing_to_reset(_: "_Base") -> None:
    """Save a round trip: a claim leaves nothing in its session, and a handler's transaction cleans up."""


@contextmanager
def translate_outages() -> Generator[None]:
    """Raise LedgerUnavailable for a server that is gone, starting, full or overloaded."""
    try:
        yield
    except asyncpg.DataError:  # the caller's error, though asyncpg makes it an InterfaceError too
        raise
    except _OUTAGES as error:
        raise LedgerUnavailable(
            f"expected the ledger's PostgreSQL to answer, got {type(error).__name__}: {error}; try again"
        ) from error


class LockTolerantBatches:
    """Runs a statement for a batch; if that waits too long for a row, for the rows that are free.

    A batch costs nothing extra while no row is locked. A row that was found locked is checked before the next
    batch that names it, so that one batch waits for its lock and not every batch.
    """

    def __init__(self, fetch: "Callable[[str, list[UUID]], Awaitable[Records]]") -> None:
        self._fetch = fetch
        self._suspects: set[UUID] = set()

    async def run(
        self, batch: Sequence[R], work: "Callable[[Sequence[R]], Awaitable[Records]]"
    ) -> "tuple[Records, set[UUID]]":
        """Return the rows of `work`, and the jobs that were left out because their rows are locked."""
        locked: set[UUID] = set()
        if self._suspects and any(one.job_id in self._suspects for one in batch):
            batch, locked = await self._free(batch)
        try:
            return await work(batch) if batch else [], locked
        except asyncpg.LockNotAvailableError:
            batch, more = await self._free(batch)
        locked |= more
        try:
            return await work(batch) if batch else [], locked
        except asyncpg.LockNotAvailableError:  # locked since, or a row that only its inserter can see
            rows, more = await self._one_by_one(batch, work)
        return rows, locked | more

    async def _free(self, batch: Sequence[R]) -> tuple[list[R], set[UUID]]:
        job_ids = {one.job_id for one in batch}
        locked = {
            row["job_id"] for row in await self._fetch(ledger_statements("postgres")["locked"], list(job_ids))
        }
        self._suspects = (self._suspects - job_ids) | locked
        return [one for one in batch if one.job_id not in locked], locked

    async def _one_by_one(
        self, batch: Sequence[R], work: "Callable[[Sequence[R]], Awaitable[Records]]"
    ) -> "tuple[Records, set[UUID]]":
        rows: Records = []
        locked: set[UUID] = set()
        for one in batch:
            try:
                rows += await work([one])
            except asyncpg.LockNotAvailableError:
                locked.add(one.job_id)
        return rows, locked

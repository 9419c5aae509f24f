"""A small pool of connections, each lent to one statement or transaction at a time.

The store's statements leave nothing behind in a session, so lending costs no round trip, no task and no turn
of the event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from warrener_contracts.postgres_sessions import READ_ONLY

C = TypeVar("C")
IDLE_CHECK_AFTER = 30.0
"""Seconds without use after which a connection is checked before it is lent: a proxy, a firewall or a
failover may have dropped it silently."""


class Driver(Protocol[C]):
    """Opens, checks and closes connections of one kind."""

    async def open(self) -> C:
        """A new connection. Raises the driver's errors."""
        ...

    def is_broken(self, connection: C) -> bool:
        """True if the connection is known to be unusable; makes no round trip."""
        ...

    async def is_alive(self, connection: C) -> bool:
        """True if the database answers through the connection within seconds."""
        ...

    def abort(self, connection: C) -> None:
        """Close the connection at once, without notice to the database."""

    def close(self, connection: C) -> Coroutine[Any, Any, None]:
        """Close the connection in any state; never raises, never takes long."""
        ...


class _Idle(NamedTuple, Generic[C]):
    connection: C
    since: float


class ConnectionPool(Generic[C]):
    """At most `max_size` connections. The one returned last is lent first: its statements are prepared.

    `max_wait`: seconds that a borrower waits while all are lent, then TimeoutError; None: without end.
    """

    def __init__(
        self,
        driver: Driver[C],
        max_size: int,
        *,
        max_wait: float | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._driver, self._max_wait, self._clock = driver, max_wait, clock
        self._places = asyncio.Semaphore(max_size)
        self._idle: list[_Idle[C]] = []
        self._lent: set[C] = set()
        self._unfit: set[C] = set()
        """Lent connections to a server that was found read-only: they are closed when they are returned."""
        self._closing: set[asyncio.Task[None]] = set()

    def acquire(self) -> "PooledConnection[C]":
        """`async with pool.acquire() as connection:`; it waits while all are lent.

        If the borrower is cancelled, its connection is closed first, so that its statement is over; one that
        did not answer in time is closed without waiting. If one is broken or silent, the idle ones are closed
        too, as they probably are as well; if one leads to a server that is read-only, all of them.
        """
        return PooledConnection(self)

    async def close(self) -> None:
        """Close idle connections, and wait for those that are closing. The pool may be used again
        afterwards."""
        self._clear()
        if self._closing:
            await asyncio.wait(self._closing)

    async def check_out(self) -> C:
        """A connection that must be returned by `check_in`, as `acquire` does."""
        if self._max_wait is not None and self._places.locked():
            await self._wait_for_place(self._max_wait)
        else:
            await self._places.acquire()
        try:
            connection = await self._usable()
        except BaseException:
            self._places.release()
            raise
        self._lent.add(connection)
        return connection

    async def check_in(
        self, connection: C, *, interrupted: bool = False, silent: bool = False, read_only: bool = False
    ) -> None:
        """Return a connection."""
        self._lent.discard(connection)
        is_unfit = connection in self._unfit
        self._unfit.discard(connection)
        try:
            if silent:
                self._driver.abort(connection)
                self._clear()
            elif read_only:
                self._let_go(connection)
                self._clear()
                self._unfit |= self._lent
            elif is_unfit:
                self._let_go(connection)
            elif interrupted:
                await asyncio.shield(self._let_go(connection))
            elif self._driver.is_broken(connection):
                self._let_go(connection)
                self._clear()
            else:
                self._idle.append(_Idle(connection, self._clock()))
        finally:
            self._places.release()

    async def _wait_for_place(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._places.acquire()
        except TimeoutError:
            raise TimeoutError(f"no connection became free within {seconds:g} s") from None

    async def _usable(self) -> C:
        while self._idle:
            connection, since = self._idle.pop()
            if self._driver.is_broken(connection):
                self._let_go(connection)
                self._clear()
            elif self._clock() - since < IDLE_CHECK_AFTER or await self._check_alive(connection):
                return connection
        return await self._driver.open()

    async def _check_alive(self, connection: C) -> bool:
        is_alive = False
        try:
            is_alive = await self._driver.is_alive(connection)
        finally:
            if not is_alive:
                self._let_go(connection)
        return is_alive

    def _clear(self) -> None:
        while self._idle:
            self._let_go(self._idle.pop().connection)

    def _let_go(self, connection: C) -> asyncio.Task[None]:
        """Close a connection in a task of its own, which no cancellation of a caller ends."""
        closing = asyncio.create_task(self._driver.close(connection))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing


class PooledConnection(Generic[C]):
    """A lent connection; a class and not a generator, as there is one for each statement."""

    __slots__ = ("_connection", "_pool")

    _connection: C

    def __init__(self, pool: ConnectionPool[C]) -> None:
        self._pool = pool

    async def __aenter__(self) -> C:
        self._connection = await self._pool.check_out()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.check_in(
            self._connection,
            interrupted=isinstance(error, asyncio.CancelledError),
            silent=isinstance(error, TimeoutError),
            read_only=getattr(error, "sqlstate", None) == READ_ONLY,
        )

"""A few connections to one database, kept open and lent to one statement or transaction at a time.

Small, because what the store asks leaves nothing behind in a session: lending costs no round trip, no task
and no turn of the loop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

C = TypeVar("C")

IDLE_CHECK_AFTER = 30.0
"""Seconds without use after which a connection is asked whether it still works: what stands between it and
the database (a proxy, a firewall, a server that has moved) may have forgotten it without a word."""


class Driver(Protocol[C]):
    """How connections of one kind are opened, looked at and closed."""

    async def open(self) -> C:
        """A new one. Raises what the driver raises."""
        ...

    def is_broken(self, connection: C) -> bool:
        """Whether it is known to be of no use any more; asks nobody."""
        ...

    async def is_alive(self, connection: C) -> bool:
        """Whether the database answers through it, and soon."""
        ...

    def abort(self, connection: C) -> None:
        """Close it at once, without a word to the database."""
        ...

    def close(self, connection: C) -> Coroutine[Any, Any, None]:
        """Close it, whatever state it is in; never raises, never takes long."""
        ...


class _Idle(NamedTuple, Generic[C]):
    connection: C
    since: float


class ConnectionPool(Generic[C]):
    """At most so many connections. The one given back last is lent first: its statements are prepared."""

    def __init__(self, driver: Driver[C], max_size: int, *, clock: Callable[[], float] = monotonic) -> None:
        self._driver, self._clock = driver, clock
        self._places = asyncio.Semaphore(max_size)
        self._idle: list[_Idle[C]] = []
        self._closing: set[asyncio.Task[None]] = set()

    def acquire(self) -> "PooledConnection[C]":
        """`async with pool.lent() as connection:`; it waits while all are lent.

        One whose borrower is interrupted is closed first, so that what was under way is over then; one that
        did not answer in time is closed without waiting. Where one is broken or silent, so most likely are
        the idle ones: all are closed.
        """
        return PooledConnection(self)

    async def close(self) -> None:
        """Close what is idle, and wait for what is closing. It may be used again afterwards."""
        self._clear()
        if self._closing:
            await asyncio.wait(self._closing)

    async def check_out(self) -> C:
        """A connection to be given back, as `acquire` does it."""
        await self._places.acquire()
        try:
            return await self._usable()
        except BaseException:
            self._places.release()
            raise

    async def check_in(self, connection: C, *, interrupted: bool = False, silent: bool = False) -> None:
        """What was taken."""
        try:
            if silent:
                self._driver.abort(connection)
                self._clear()
            elif interrupted:
                await asyncio.shield(self._let_go(connection))
            elif self._driver.is_broken(connection):
                self._let_go(connection)
                self._clear()
            else:
                self._idle.append(_Idle(connection, self._clock()))
        finally:
            self._places.release()

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
        """Close it, in a task of its own that nobody's impatience ends."""
        closing = asyncio.create_task(self._driver.close(connection))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing


class PooledConnection(Generic[C]):
    """A connection that is lent; a class and no generator, as there is one for each statement."""

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
        )

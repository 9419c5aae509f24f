"""A clock that moves when it is told to: hours of a simulation pass in milliseconds, alike every time."""

import asyncio
import heapq
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_TURNS = 100  # how often others get a turn where the event loop does not show whether anybody is ready


class VirtualClock:
    """Time that stands still until `advance`. Sleepers wake in the order of their time, then as they came."""

    def __init__(self, start: datetime = _BEGINNING) -> None:
        self._start = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._ticket = count()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    @property
    def trusted(self) -> bool:
        return True

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved on by `seconds`; zero lets others have a turn."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._ticket), waker))
        await waker

    @property
    def sleeping(self) -> int:
        """How many wait for this clock."""
        self._forget_cancelled()
        return sum(not waker.done() for _, _, waker in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move on by `seconds`, stopping at each sleeper until what it set going has come to rest."""
        end = self._elapsed + seconds
        await self.settle()
        while (wakes_at := self._next_wake()) is not None and wakes_at <= end:
            await self._wake(wakes_at)
        self._elapsed = end

    async def leap(self, seconds: float) -> None:
        """Move on by `seconds` as a machine does that was asleep: who slept no longer than that wakes now,
        all of them late, and none twice. A year of what is idle passes in the time of what is not."""
        await self.settle()
        self._elapsed += seconds
        while (wakes_at := self._next_wake()) is not None and wakes_at <= self._elapsed:
            heapq.heappop(self._sleepers)[2].set_result(None)
        await self.settle()

    async def run_until(self, condition: Callable[[], bool], *, within: float) -> None:
        """Move on from sleeper to sleeper until `condition()`. Raises TimeoutError after `within` seconds."""
        end = self._elapsed + within
        await self.settle()
        while not condition():
            wakes_at = self._next_wake()
            if wakes_at is None or wakes_at > end:
                raise TimeoutError(
                    f"expected it to become true within {within} virtual seconds, got nothing more to wake"
                )
            await self._wake(wakes_at)

    async def run_until_idle(self, *, within: float) -> None:
        """Move on until nobody sleeps any more, at most `within` seconds (periodic work sleeps for ever)."""
        end = self._elapsed + within
        await self.settle()
        while (wakes_at := self._next_wake()) is not None and wakes_at <= end:
            await self._wake(wakes_at)

    async def settle(self) -> None:
        """Let all that is ready run, at this moment. What waits for a thread or a socket is not ready."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:  # uvloop keeps it to itself
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            return
        await asyncio.sleep(0)
        while ready:  # noqa: ASYNC110 - the queue of the loop has no event to wait for
            await asyncio.sleep(0)

    async def _wake(self, moment: float) -> None:
        """One sleeper at a time: two of the same moment keep their order whatever the first one does."""
        self._elapsed = max(self._elapsed, moment)
        _, _, waker = heapq.heappop(self._sleepers)
        waker.set_result(None)
        await self.settle()

    def _next_wake(self) -> float | None:
        self._forget_cancelled()
        return self._sleepers[0][0] if self._sleepers else None

    def _forget_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)


_FIRST_MILLISECOND = 1_767_225_600_000  # 2026-01-01T00:00:00Z, where the virtual clock begins
_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62


class SeededEntropy:
    """UUIDv7 that rise by one millisecond each, and numbers from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it is meant to be foreseen
        self._milliseconds = _FIRST_MILLISECOND

    def new_id(self) -> UUID:
        self._milliseconds += 1
        high = self._random.getrandbits(12) << 64
        low = self._random.getrandbits(62)
        return UUID(int=(self._milliseconds << 80) | _VERSION_7 | high | _VARIANT | low)

    def new_id_text(self) -> str:
        return str(self.new_id())

    def chance(self) -> float:
        return self._random.random()

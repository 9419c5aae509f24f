"""Virtual time and seeded identifiers: hours of a simulation pass in milliseconds, the same in every run."""

import asyncio
import heapq
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_TURNS = 100  # loop turns for others, where the event loop does not show its ready queue

_FIRST_MILLISECOND = 1_767_225_600_000  # 2026-01-01T00:00:00Z, where the virtual clock begins
_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62


class VirtualClock:
    """Time that stands still until `advance`. Sleepers wake in the order of their time, then of their
    arrival."""

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
        """Wait until the clock has advanced by `seconds`; zero lets other tasks run."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._ticket), waker))
        await waker

    @property
    def sleeping(self) -> int:
        self._forget_cancelled()
        return sum(not waker.done() for _, _, waker in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Advance by `seconds`, stopping at each sleeper until all that it started has settled."""
        end = self._elapsed + seconds
        await self.run_until_idle(within=seconds)
        self._elapsed = end

    async def leap(self, seconds: float) -> None:
        """Advance by `seconds` at once, as a machine that was suspended: sleepers due meanwhile wake late,
        and once. Idle time costs nothing."""
        await self.settle()
        self._elapsed += seconds
        while (wakes_at := self._next_wake()) is not None and wakes_at <= self._elapsed:
            heapq.heappop(self._sleepers)[2].set_result(None)
        await self.settle()

    async def run_until(self, condition: Callable[[], bool], *, within: float) -> None:
        """Advance from sleeper to sleeper until `condition()`. Raises TimeoutError after `within` seconds."""
        end = self._elapsed + within
        await self.settle()
        while not condition():
            if not self._wake_first(end):
                raise TimeoutError(
                    f"expected it to become true within {within} virtual seconds, got nothing more to wake"
                )
            await self.settle()

    async def run_until_idle(self, *, within: float) -> None:
        """Advance until no task sleeps, for at most `within` seconds (periodic work always sleeps)."""
        end = self._elapsed + within
        await self.settle()
        while self._wake_first(end):
            await self.settle()

    async def settle(self) -> None:
        """Run all ready tasks at this moment. Tasks that wait for a thread or a socket are not ready."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:  # uvloop hides it
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            return
        await asyncio.sleep(0)
        while ready:  # noqa: ASYNC110 - the queue of the loop has no event to wait for
            await asyncio.sleep(0)

    def _wake_first(self, end: float) -> bool:
        """Wake one sleeper, if one is due by `end`: two of the same moment keep their order, whatever the
        first one does."""
        wakes_at = self._next_wake()
        if wakes_at is None or wakes_at > end:
            return False
        self._elapsed = max(self._elapsed, wakes_at)
        _, _, waker = heapq.heappop(self._sleepers)
        waker.set_result(None)
        return True

    def _next_wake(self) -> float | None:
        self._forget_cancelled()
        return self._sleepers[0][0] if self._sleepers else None

    def _forget_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)


class SeededEntropy:
    """UUIDv7 one millisecond apart, and random numbers, the same in every run with the same seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)  # noqa: S311 - it is meant to be foreseen
        self._milliseconds = _FIRST_MILLISECOND

    def new_id(self) -> UUID:
        self._milliseconds += 1
        high = self._random.getrandbits(12) << 64
        low = self._random.getrandbits(62)
        return UUID(int=(self._milliseconds << 80) | _VERSION_7 | high | _VARIANT | low)

    def new_id_text(self) -> str:
        return str(self.new_id())

    def new_secret(self) -> str:
        return f"{self._seed:064x}"  # no number is taken: others stay the same with it

    def chance(self) -> float:
        return self._random.random()

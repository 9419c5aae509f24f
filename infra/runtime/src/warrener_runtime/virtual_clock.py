"""Virtual time and seeded identifiers: hours of a simulation pass in milliseconds, the same in every run."""

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVarTuple
from uuid import UUID

_Ts = TypeVarTuple("_Ts")
_TURNS_BETWEEN_POLLS = 100
"""Turns after which the operating system is polled although tasks are ready: threads and real timers
wait no longer than that."""
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_TURNS = 100  # loop turns for others, where the event loop does not show its ready queue

_FIRST_MILLISECOND = 1_767_225_600_000  # 2026-01-01T00:00:00Z, where the virtual clock begins
_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62


class SimulationLoop(asyncio.SelectorEventLoop):
    """An event loop that polls the operating system only while no task is ready, and calls back then.

    asyncio polls in every turn, and a task that waits until all others rest takes part in every turn. Both
    together take a seventh of a simulation's processor time.
    """

    _ready: deque[Any]
    _polls_in: int = _TURNS_BETWEEN_POLLS
    _proceed: Callable[[], bool] | None = None
    _finished: "asyncio.Future[None] | None" = None

    async def run_while(self, proceed: Callable[[], bool]) -> None:
        """Call `proceed`, which makes tasks ready, whenever no task is, until it returns False.

        Raises what it raises. Tasks that wait for a thread or a socket are not ready.
        """
        if self._finished is not None:
            raise RuntimeError("expected one task to run the simulation, got a second; let one of them do it")
        self._proceed, self._finished = proceed, self.create_future()
        try:
            await self._finished
        finally:
            self._proceed = self._finished = None

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Do as asyncio does, without its checks of debug mode."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        ready = self._ready
        while not ready and self._proceed is not None:
            self._step(self._proceed)
        self._polls_in -= 1
        if not ready or not self._polls_in:
            self._polls_in = _TURNS_BETWEEN_POLLS
            super()._run_once()  # type: ignore[misc]
            return
        for _ in range(len(ready)):  # what these make ready waits for the next turn, as in asyncio
            handle = ready.popleft()
            if not handle._cancelled:  # noqa: SLF001 - asyncio has no public loop to build upon
                handle._run()  # noqa: SLF001

    def _step(self, proceed: Callable[[], bool]) -> None:
        finished = self._finished
        assert finished is not None
        self._proceed = None  # until it is known that there is more to do
        if finished.done():  # its task was cancelled
            return
        try:
            if proceed():
                self._proceed = proceed
            else:
                finished.set_result(None)
        except Exception as error:  # noqa: BLE001 - its caller raises it
            finished.set_exception(error)


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
        """The number of sleepers."""
        self._forget_cancelled()
        return sum(not waker.done() for _, _, waker in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Advance by `seconds`, stopping at each sleeper until all that it started has settled."""
        end = self._elapsed + seconds

        def wake_next() -> bool:
            return self._wake_first(end)

        await self._run_while(wake_next)
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

        def wake_next() -> bool:
            if condition():
                return False
            if not self._wake_first(end):
                raise TimeoutError(
                    f"expected it to become true within {within} virtual seconds, got nothing more to wake"
                )
            return True

        await self._run_while(wake_next)

    async def run_until_idle(self, *, within: float) -> None:
        """Advance until no task sleeps, for at most `within` seconds (periodic work always sleeps)."""
        end = self._elapsed + within
        await self._run_while(lambda: self._wake_first(end))

    async def settle(self) -> None:
        """Run all ready tasks at this moment. Tasks that wait for a thread or a socket are not ready."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, SimulationLoop):
            await loop.run_while(_never)
            return
        ready = getattr(loop, "_ready", None)
        if ready is None:  # uvloop hides it
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            return
        await asyncio.sleep(0)
        while ready:  # noqa: ASYNC110 - the queue of the loop has no event to wait for
            await asyncio.sleep(0)

    async def _run_while(self, wake_next: Callable[[], bool]) -> None:
        """Let all settle, and again after each `wake_next` that returned True."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, SimulationLoop):
            await loop.run_while(wake_next)
            return
        await self.settle()
        while wake_next():
            await self.settle()

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


def _never() -> bool:
    return False


class SeededEntropy:
    """UUIDv7 one millisecond apart, and random numbers, the same in every run with the same seed."""

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

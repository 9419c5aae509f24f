"""Processes that may die at any call they make: before it took effect, or after it did and before they
knew."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from itertools import count
from typing import Any, TypeVar, cast

from warrener_runtime.bus import Bus, Delivery, OutgoingMessage, PublishResult

T = TypeVar("T")


class InjectedFailure(Exception):
    """The infrastructure fails a call; whether it took effect, nobody knows."""


async def strike_each_call(
    story: Callable[[int], Awaitable[bool]], stride: int, *, effect_first: bool, most: int
) -> None:
    """Run `story` with every `stride`-th call struck in turn, until one returns that it has made fewer calls.
    Where the strike before the effect falls, that after it does not."""
    for nth in count(effect_first % stride, stride):
        assert nth < most, "the story does not end"
        if not await story(nth):
            assert nth > 5, "the story must make some calls"
            return


class ProcessLife:
    """One life of one process. A dead process does nothing more: whatever it calls never returns."""

    def __init__(self) -> None:
        self.dead = asyncio.Event()
        self.agent_id = ""  # of an agent
        self.forbidden: set[str] = set()
        """The exchanges to which it may not write."""
        self._calls_left: int | None = None
        self._effect_first = False
        self._deadly = True
        self._pause: Callable[[], Awaitable[None]] | None = None

    def strike_at(
        self,
        calls: int,
        *,
        effect_first: bool,
        deadly: bool = True,
        pause: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Die at the `calls`-th call from now, or let it raise InjectedFailure and live on, or `pause` there;
        with `effect_first`, after it has taken effect."""
        self._calls_left, self._effect_first, self._deadly = calls, effect_first, deadly
        self._pause = pause

    @property
    def struck(self) -> bool:
        """Whether what was ordered has happened."""
        return self._calls_left is not None and self._calls_left < 0

    async def call(self, work: Callable[[], Awaitable[T]], count_changes: Callable[[], int]) -> T:
        """Do `work`, unless this is where it dies. After a call that changed nothing is as before it, so
        that only calls with an effect count there."""
        await self._if_alive()
        if not self._effect_first:
            await self._count_call()
        before = count_changes()
        result = await work()
        if self._effect_first and count_changes() != before:
            await self._count_call()
        await self._if_alive()
        return result

    async def _count_call(self) -> None:
        if self._calls_left is None or self.struck:
            return
        self._calls_left -= 1
        if self.struck:
            if self._pause is not None:
                await self._pause()
                return
            if not self._deadly:
                raise InjectedFailure("ordered by the test")
            self.dead.set()
            await self._if_alive()

    async def _if_alive(self) -> None:
        if self.dead.is_set():
            await asyncio.get_running_loop().create_future()


def crashable(thing: T, life: ProcessLife) -> T:
    """`thing` (a store, a ledger) as a process has it: every call may be its last."""
    return cast("T", _Crashable(thing, life))


def crashable_bus(bus: Bus, life: ProcessLife) -> Bus:
    return cast("Bus", _CrashableBus(bus, life))


class _Crashable:
    deadly: Collection[str] | None = None
    """The calls that may be the last; None: every one."""

    def __init__(self, thing: Any, life: ProcessLife) -> None:
        self._thing, self._life = thing, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if found is self._thing:  # a port of the store: its triggers, escalations, dead letters, retention
            return self
        if not inspect.iscoroutinefunction(found) or not (self.deadly is None or name in self.deadly):
            return found

        def call(*given: Any, **named: Any) -> Awaitable[Any]:
            return self._life.call(lambda: found(*given, **named), self._count_changes)

        self.__dict__[name] = call  # the next look finds it here
        return call

    def _count_changes(self) -> int:
        """Rows that were changed."""
        return int(self._thing.total_changes)


class _CrashableBus(_Crashable):
    deadly: Collection[str] | None = ("declare", "bind", "unbind")
    _calls = 0

    def _count_changes(self) -> int:
        """Another number each time: every call has an effect."""
        self._calls += 1
        return self._calls

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        allowed = [message for message in messages if message.exchange not in self._life.forbidden]
        results = iter(
            await self._life.call(lambda: self._thing.publish(allowed, timeout=timeout), self._count_changes)
        )
        return [
            PublishResult.REFUSED if message.exchange in self._life.forbidden else next(results)
            for message in messages
        ]

    async def subscribe(self, queue: str, *, prefetch: int) -> "_CrashableSubscription":
        return _CrashableSubscription(await self._thing.subscribe(queue, prefetch=prefetch), self._life)


class _CrashableSubscription(_CrashableBus):
    deadly = ("ack", "reject")

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return aiter(self._thing)

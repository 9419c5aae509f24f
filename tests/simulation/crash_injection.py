"""Processes that may die at any call they make: before it took effect, or after it did and before they
knew."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from warrener_runtime.bus import (
    Bus,
    Delivery,
    OutgoingMessage,
    PublishResult,
    QueueStats,
    Subscription,
    TopologySpec,
)
from warrener_runtime.bus.port import Handler
from warrener_runtime.bus.types import BindingSpec, QueueSpec

T = TypeVar("T")


class InjectedFailure(Exception):
    """The infrastructure fails a call; whether it took effect, nobody knows."""


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

    def die_at(self, calls: int, *, effect_first: bool) -> None:
        """Die at the `calls`-th call from now; with `effect_first`, after it has taken effect."""
        self._calls_left, self._effect_first, self._deadly = calls, effect_first, True

    def fail_at(self, calls: int, *, effect_first: bool) -> None:
        """Let the `calls`-th call from now raise Trouble, and live on."""
        self._calls_left, self._effect_first, self._deadly = calls, effect_first, False

    @property
    def struck(self) -> bool:
        """Whether what was ordered has happened."""
        return self._calls_left is not None and self._calls_left < 0

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work`, unless this is where it dies."""
        await self._if_alive()
        if self._calls_left is not None and self._calls_left >= 0:
            self._calls_left -= 1
            if self._calls_left < 0:
                await self._strike(work)
        result = await work()
        await self._if_alive()
        return result

    async def _strike(self, work: Callable[[], Awaitable[object]]) -> None:
        if self._effect_first:
            await work()
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


class _Crashable:
    def __init__(self, thing: object, life: ProcessLife) -> None:
        self._thing, self._life = thing, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if name == "triggers":  # a port that the store hands out
            return crashable(found, self._life)
        if not inspect.iscoroutinefunction(found):
            return found

        def call(*given: Any, **named: Any) -> Awaitable[Any]:
            return self._life.call(lambda: found(*given, **named))

        self.__dict__[name] = call  # the next look finds it here
        return call


class CrashableBus:
    """A bus as a process has it."""

    def __init__(self, bus: Bus, life: ProcessLife) -> None:
        self._bus, self._life = bus, life

    async def start(self) -> None:
        await self._bus.start()

    async def close(self) -> None:
        await self._bus.close()

    async def declare(self, topology: TopologySpec) -> None:
        await self._life.call(lambda: self._bus.declare(topology))

    async def bind(self, queue: QueueSpec) -> list[BindingSpec]:
        return await self._life.call(lambda: self._bus.bind(queue))

    async def unbind(self, queue: str, bindings: Sequence[BindingSpec]) -> None:
        await self._life.call(lambda: self._bus.unbind(queue, bindings))

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        allowed = [message for message in messages if message.exchange not in self._life.forbidden]
        results = iter(await self._life.call(lambda: self._bus.publish(allowed, timeout=timeout)))
        return [
            PublishResult.REFUSED if message.exchange in self._life.forbidden else next(results)
            for message in messages
        ]

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        return CrashableSubscription(await self._bus.subscribe(queue, prefetch=prefetch), self._life)

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        return await self._bus.listen(queue, handler)

    async def backlog(self, queue: str) -> QueueStats:
        return await self._bus.backlog(queue)

    async def ping(self, *, timeout: float = 5.0) -> None:
        await self._bus.ping(timeout=timeout)


class CrashableSubscription:
    """A subscription as a process has it."""

    def __init__(self, subscription: Subscription, life: ProcessLife) -> None:
        self._subscription, self._life = subscription, life

    @property
    def live(self) -> bool:
        return self._subscription.live

    @property
    def epoch(self) -> int:
        return self._subscription.epoch

    @property
    def received_count(self) -> int:
        return self._subscription.received_count

    @property
    def has_capacity(self) -> bool:
        return self._subscription.has_capacity

    @property
    def nothing_unacked(self) -> bool:
        return self._subscription.nothing_unacked

    def resubscribe(self) -> None:
        self._subscription.resubscribe()

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self._subscription.__aiter__()

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        given = list(deliveries)
        await self._life.call(lambda: self._subscription.ack(given))

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        given = list(deliveries)
        await self._life.call(lambda: self._subscription.reject(given, requeue=requeue))

    async def stop(self) -> None:
        await self._subscription.stop()

    async def close(self) -> None:
        await self._subscription.close()

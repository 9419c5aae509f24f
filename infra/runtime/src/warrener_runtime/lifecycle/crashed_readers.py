"""Messages that end the process that reads them, by a crash in C or too much memory: no handler can park
them.

A count of deliveries is no evidence, as a crashed consumer returns all that it held. So a message that was
returned often is handled alone, and its try is stored first. After five crashes with this one message it is
parked unread.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger

_log = get_logger("crashed_readers")

SUSPECT_AFTER = 3
"""Returns after which a message is handled alone. Lost connections count too: one or two mean nothing."""
MAX_CRASHES = 5


class Acknowledger(Protocol):
    """Acknowledges deliveries, as a subscription does."""

    async def ack(self, deliveries: Iterable[Delivery]) -> None: ...


A = TypeVar("A", bound=Acknowledger)


class CrashCounts(Protocol):
    """Stores tries, so that they outlive a crash."""

    async def tries(self, queue: str, deliveries: Sequence[Delivery]) -> list[int]:
        """Count the stored tries of each message."""
        ...

    async def begin(self, queue: str, delivery: Delivery) -> None:
        """Store one more try."""
        ...

    async def end(self, queue: str, delivery: Delivery) -> None:
        """Delete the tries of a message, as the process has survived it."""
        ...

    async def park(self, queue: str, delivery: Delivery, crashes: int) -> None:
        """Park a message, and delete its tries."""
        ...


class IsolatingHandler(Generic[A]):
    """A handler that passes suspected messages to `handle` one by one, those with the fewest tries first."""

    def __init__(
        self, queue: str, handle: Callable[[A, list[Delivery]], Awaitable[None]], tries: CrashCounts
    ) -> None:
        self._queue = queue
        self._handle = handle
        self._tries = tries
        self._begun: set[tuple[int, int]] = set()  # tries of this process, which is alive: they do not count
        self._done: set[tuple[int, int]] = set()

    async def __call__(self, subscription: A, deliveries: list[Delivery]) -> None:
        """Handle a batch. After an error it is called with the same batch again, and continues."""
        suspects = [one for one in deliveries if is_suspect(one)]
        if not suspects:
            await self._handle(subscription, deliveries)
            return
        await self._handle_ordinary(subscription, [one for one in deliveries if not is_suspect(one)])
        left = [one for one in suspects if _key(one) not in self._done]
        tries = await self._tries.tries(self._queue, left)
        for count, delivery in sorted(zip(tries, left, strict=True), key=lambda pair: pair[0]):
            if count >= MAX_CRASHES and _key(delivery) not in self._begun:
                await self._park(subscription, delivery, count)
            else:
                await self._handle_alone(subscription, delivery)
            self._done.add(_key(delivery))
        self._begun.clear()
        self._done.clear()

    async def _handle_ordinary(self, subscription: A, deliveries: list[Delivery]) -> None:
        left = [one for one in deliveries if _key(one) not in self._done]
        if left:
            await self._handle(subscription, left)
            self._done.update(map(_key, left))

    async def _handle_alone(self, subscription: A, delivery: Delivery) -> None:
        if _key(delivery) not in self._begun:
            await self._tries.begin(self._queue, delivery)
            self._begun.add(_key(delivery))
        try:
            await self._handle(subscription, [delivery])
        except BaseException:  # no crash: the store is away, or we stop
            with contextlib.suppress(Exception):
                await self._tries.end(self._queue, delivery)
                self._begun.discard(_key(delivery))
            raise
        await self._tries.end(self._queue, delivery)

    async def _park(self, subscription: A, delivery: Delivery, crashes: int) -> None:
        await self._tries.park(self._queue, delivery, crashes)
        await subscription.ack([delivery])
        _log.error(
            "A message was parked unread: each process that read it crashed.",
            action="crashed_readers.parked",
            queue=self._queue,
            message_id=delivery.message_id,
            crashes=crashes,
        )


def is_suspect(delivery: Delivery) -> bool:
    """True if the message was returned too often, as quorum queues count it."""
    if not delivery.redelivered:
        return False
    returns = delivery.headers.get("x-delivery-count")
    return isinstance(returns, int) and returns >= SUSPECT_AFTER


def _key(delivery: Delivery) -> tuple[int, int]:
    return delivery.epoch, delivery.tag

"""Messages that end the process that reads them, by a crash in C or too much memory: no handler can park
them.

A count of deliveries is no evidence: a lost connection returns messages too, and a crashed consumer returns
all that it held. So messages that were returned often are handled after their try is stored, and a try counts
only if its process died. They are handled together until that happens, and then in halves. After five crashes
with one message alone it is parked unread.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger

_log = get_logger("crashed_readers")

SUSPECT_AFTER = 3
"""Returns after which the tries of a message are stored. Lost connections count too: one or two mean
nothing."""
MAX_CRASHES = 5


class Acknowledger(Protocol):
    """Acknowledges deliveries, as a subscription does."""

    async def ack(self, deliveries: Iterable[Delivery]) -> None: ...


A = TypeVar("A", bound=Acknowledger)


class CrashCounts(Protocol):
    """Stores tries, so that they outlive a crash."""

    async def tries(self, queue: str, deliveries: Sequence[Delivery]) -> list[tuple[int, int]]:
        """Count the stored tries of each message: together with others, and alone."""
        ...

    async def begin(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        """Store one more try of these together; of one message, alone."""
        ...

    async def end(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        """Delete the tries of these messages, as the process has survived them."""
        ...

    async def park(self, queue: str, delivery: Delivery, crashes: int) -> None:
        """Park a message, and delete its tries."""
        ...


class IsolatingHandler(Generic[A]):
    """A handler that passes suspected messages to `handle` after the others, in parts (`split_by_deaths`)."""

    def __init__(
        self,
        queue: str,
        handle: Callable[[A, list[Delivery]], Awaitable[None]],
        tries: CrashCounts,
        *,
        suspect_after: int = SUSPECT_AFTER,
    ) -> None:
        self._queue = queue
        self._handle = handle
        self._tries = tries
        self._suspect_after = suspect_after
        self._begun: list[Delivery] = []  # a try of this process, which is alive: it does not count
        self._done: set[tuple[int, int]] = set()

    async def __call__(self, subscription: A, deliveries: list[Delivery]) -> None:
        """Handle a batch. After an error it is called with the same batch again, and continues."""
        suspects = [one for one in deliveries if is_suspect(one, self._suspect_after)]
        if not suspects:
            await self._handle(subscription, deliveries)
            return
        await self._end_try()
        ordinary = self._left(one for one in deliveries if not is_suspect(one, self._suspect_after))
        if ordinary:
            await self._handle(subscription, ordinary)
            self._done.update(map(_key, ordinary))
        left = self._left(suspects)
        tries = await self._tries.tries(self._queue, left)
        for part, crashes in split_by_deaths(list(zip(left, tries, strict=True))):
            if crashes >= MAX_CRASHES:
                await self._park(subscription, part[0], crashes)
            else:
                await self._try(subscription, part)
            self._done.update(map(_key, part))
        await self._end_try()
        self._done.clear()

    def _left(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        return [one for one in deliveries if _key(one) not in self._done]

    async def _try(self, subscription: A, part: list[Delivery]) -> None:
        await self._end_try()
        await self._tries.begin(self._queue, part)
        self._begun = part
        try:
            await self._handle(subscription, part)
        except BaseException:  # no crash: the store is away, or we stop
            with contextlib.suppress(Exception):
                await self._end_try()
            raise

    async def _end_try(self) -> None:
        if self._begun:
            await self._tries.end(self._queue, self._begun)
            self._begun = []

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


def split_by_deaths(tried: Sequence[tuple[Delivery, tuple[int, int]]]) -> list[tuple[list[Delivery], int]]:
    """Split messages into parts to handle one after the other, each with its crashes alone (0 for several).

    Messages with which no process has died are one part, as they are of one that lost its connection. Those
    that were in one part when a process died are two halves, so the message that ends its readers is alone
    after a few deaths. Parts with fewer deaths come first. Pure.
    """
    by_deaths: dict[tuple[int, int], list[Delivery]] = {}
    for delivery, tries in tried:
        by_deaths.setdefault(tries, []).append(delivery)
    parts: list[tuple[list[Delivery], int]] = []
    for (together, alone), members in sorted(by_deaths.items(), key=lambda item: sum(item[0])):
        if alone:
            parts += (([one], alone) for one in members)
            continue
        half = (len(members) + 1) // 2 if together else len(members)
        parts += ((part, 0) for part in (members[:half], members[half:]) if part)
    return parts


def is_suspect(delivery: Delivery, suspect_after: int = SUSPECT_AFTER) -> bool:
    """True if the message was returned too often, as quorum queues count it."""
    if not delivery.redelivered:
        return False
    returns = delivery.headers.get("x-delivery-count")
    return isinstance(returns, int) and returns >= suspect_after


def _key(delivery: Delivery) -> tuple[int, int]:
    return delivery.epoch, delivery.tag

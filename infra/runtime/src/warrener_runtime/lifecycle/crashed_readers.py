"""Messages that no handler can park: they end the process that reads them, by a crash in C or too much
memory, or they make the handler of a whole batch fail.

A count of deliveries is no evidence: a lost connection returns messages too, and a crashed consumer returns
all that it held. So messages that were returned often are handled after their try is stored, and a try counts
only if its process died. They are handled together until that happens, and then in halves. After five crashes
with one message alone it is parked unread.

Messages of which the handler says that it cannot, although there is no outage, are handled in halves too.
Those that fail alone are tried again after a pause, as all that fails, and parked the third time. If all of a
batch fail, the fault may be ours: they are retried without end.
"""

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from warrener_runtime.backoff import is_outage
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import shown

_log = get_logger("crashed_readers")

SUSPECT_AFTER = 3
"""Returns after which the tries of a message are stored. Lost connections count too: one or two mean
nothing."""
MAX_CRASHES = 5
MAX_FAILURES = 3
"""Tries after which a message that fails alone is parked, if others of its batch were handled."""
CRASHED, REJECTED = "crashed_readers", "rejected"
"""Reasons of parked messages: the processes that read it crashed; the handler failed at it alone."""


class CrashCounts(Protocol):
    """Stores tries, so that they outlive a crash."""

    async def tries(self, queue: str, deliveries: Sequence[Delivery]) -> list[tuple[int, int]]:
        """Count the stored tries of each message: together with others, and alone."""
        ...

    async def begin(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        """Store one more try of these together; of one message, alone."""

    async def end(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        """Delete the tries of these messages, as the process has survived them."""

    async def park(self, queue: str, delivery: Delivery, reason: str, detail: str) -> None:
        """Park a message, and delete its tries."""


class IsolatingHandler:
    """A handler that passes suspected messages to `handle` after the others, in parts (`split_by_deaths`),
    and splits what fails."""

    def __init__(
        self,
        queue: str,
        handle: Callable[[Subscription, list[Delivery]], Awaitable[None]],
        tries: CrashCounts,
    ) -> None:
        self._queue = queue
        self._handle = handle
        self._tries = tries
        self._begun: list[Delivery] = []  # a try of this process, which is alive: it does not count
        self._subscription: Subscription | None = None
        self._done: set[tuple[int, int]] = set()  # of its batch that is repeated now
        self._any_handled = False
        self._failures: Counter[tuple[int, int]] = Counter()

    async def __call__(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Handle a batch. After an error it is called with the same batch again, and continues."""
        suspects = [one for one in deliveries if is_suspect(one)]
        if not suspects and len(deliveries) == 1:  # may be a heavy one, while a batch is handled
            await self._handle(subscription, deliveries)
            return
        if subscription is not self._subscription:  # its epochs and tags start at one again
            self._subscription = subscription
            self._forget_batch()
        await self._end_try()
        ordinary = self._left(one for one in deliveries if not is_suspect(one))
        failed = await self._handle_parts(subscription, ordinary) if ordinary else []
        left = self._left(suspects)
        tries = await self._tries.tries(self._queue, left) if left else []
        for part, crashes in split_by_deaths(list(zip(left, tries, strict=True))):
            if crashes >= MAX_CRASHES:
                detail = f"{crashes} processes crashed that handled it alone"
                await self._park(subscription, part[0], CRASHED, detail)
            else:
                failed += await self._try(subscription, part)
        await self._end_try()
        await self._park_failed(subscription, failed)
        self._forget_batch()

    def _forget_batch(self) -> None:
        self._done.clear()
        self._failures.clear()
        self._any_handled = False

    def _left(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        return [one for one in deliveries if _key(one) not in self._done]

    async def _handle_parts(
        self, subscription: Subscription, part: list[Delivery]
    ) -> list[tuple[Delivery, Exception]]:
        """Handle messages together, or in halves if that fails; return those that fail alone. Raises errors
        of an outage."""
        try:
            await self._handle(subscription, part)
        except Exception as error:
            if is_outage(error):
                raise
            if len(part) == 1:
                return [(part[0], error)]
            half = len(part) // 2
            failed = await self._handle_parts(subscription, part[:half])
            return failed + await self._handle_parts(subscription, part[half:])
        self._done.update(map(_key, part))
        self._any_handled = True
        return []

    async def _park_failed(
        self, subscription: Subscription, failed: Sequence[tuple[Delivery, Exception]]
    ) -> None:
        """Park the messages that have failed alone often enough. Raises the first error if any is tried
        again."""
        self._failures.update(_key(delivery) for delivery, _ in failed)
        for delivery, error in failed:
            if not self._any_handled or self._failures[_key(delivery)] < MAX_FAILURES:
                raise error
        for delivery, error in failed:
            await self._park(subscription, delivery, REJECTED, shown(f"{type(error).__name__}: {error}"))

    async def _try(
        self, subscription: Subscription, part: list[Delivery]
    ) -> list[tuple[Delivery, Exception]]:
        await self._end_try()
        await self._tries.begin(self._queue, part)
        self._begun = part
        try:
            return await self._handle_parts(subscription, part)
        except BaseException:  # no crash: the store is away, or we stop
            with contextlib.suppress(Exception):
                await self._end_try()
            raise

    async def _end_try(self) -> None:
        if self._begun:
            await self._tries.end(self._queue, self._begun)
            self._begun = []

    async def _park(self, subscription: Subscription, delivery: Delivery, reason: str, detail: str) -> None:
        await self._tries.park(self._queue, delivery, reason, detail)
        await subscription.ack([delivery])
        self._done.add(_key(delivery))
        _log.error(
            "A message was parked, because it stood before the others of its queue.",
            action="crashed_readers.parked",
            queue=self._queue,
            message_id=delivery.message_id,
            reason=reason,
            detail=detail,
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

"""One life of a consumer: what it received and what of that is not settled yet."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter

from warrener_runtime.bus.delivery_buffer import DeliveryBuffer
from warrener_runtime.bus.port import Delivery
from warrener_runtime.bus.rabbit.broker_client import ConsumerChannel

_tag_of: Callable[[Delivery], int] = attrgetter("tag")


class ConsumerSession:
    """From opening a channel to losing it. Delivery tags mean nothing beyond it."""

    def __init__(self, epoch: int, buffer: DeliveryBuffer) -> None:
        self._epoch = epoch
        self._buffer = buffer
        self._gone = asyncio.Event()
        self.channel: ConsumerChannel | None = None
        self.unsettled: dict[int, None] = {}  # tags as they came, so ascending
        self.received_count = 0

    @property
    def epoch(self) -> int:
        """What its deliveries are marked with."""
        return self._epoch

    @property
    def is_over(self) -> bool:
        """Whether the broker delivers nothing to it any more."""
        return self._gone.is_set() or self.channel is None or not self.channel.live

    def on_opened(self, channel: ConsumerChannel) -> None:
        """Acknowledge on this channel."""
        self.channel = channel

    def on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """More to settle."""
        if not self._gone.is_set():
            self.unsettled.update(dict.fromkeys(map(_tag_of, deliveries)))
            self._buffer.put_all(deliveries)
            self.received_count += len(deliveries)

    def on_gone(self) -> None:
        """It is over; the broker gives out again what is unsettled."""
        self._gone.set()

    async def end(self) -> None:
        """Wait until it is over."""
        await self._gone.wait()

    def take(self, deliveries: Iterable[Delivery]) -> set[int]:
        """The tags of those that are of this life and still to settle."""
        epoch, unsettled = self._epoch, self.unsettled
        return {one.tag for one in deliveries if one.epoch == epoch and one.tag in unsettled}

    def settled(self, tags: Collection[int]) -> None:
        """These are done with."""
        if len(tags) == len(self.unsettled):
            self.unsettled.clear()
            return
        for tag in tags:
            del self.unsettled[tag]

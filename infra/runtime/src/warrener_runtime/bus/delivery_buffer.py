"""What a consumer has received and nobody has taken yet: the buffer behind every subscription."""

import asyncio
from collections.abc import Sequence

from warrener_runtime.bus.port import Delivery


class DeliveryBuffer:
    """Deliveries go in one by one and come out in batches: all that arrived since the last one."""

    def __init__(self) -> None:
        self._waiting: list[Delivery] = []
        self._changed = asyncio.Event()
        self._ended = False

    def put(self, delivery: Delivery) -> None:
        """Add one; whoever waits for a batch wakes."""
        self._waiting.append(delivery)
        self._changed.set()

    def put_all(self, deliveries: Sequence[Delivery]) -> None:
        """Add what came together; whoever waits for a batch wakes."""
        self._waiting += deliveries
        self._changed.set()

    def clear(self) -> None:
        """Their channel is gone: the broker gives them out again by itself."""
        self._waiting.clear()
        if not self._ended:
            self._changed.clear()

    def end(self) -> None:
        """Nothing more will arrive; what did is still handed out."""
        self._ended = True
        self._changed.set()

    async def batch(self) -> list[Delivery]:
        """The next batch, or an empty one after the end."""
        while True:
            while not self._waiting and not self._ended:
                self._changed.clear()
                await self._changed.wait()
            seen = len(self._waiting)
            await asyncio.sleep(0)  # the first of many woke us: let the reader hand over those it has
            if len(self._waiting) == seen and (seen or self._ended):
                break
        taken, self._waiting = self._waiting, []
        return taken

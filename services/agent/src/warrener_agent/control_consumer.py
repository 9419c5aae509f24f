"""The ear for control."""

from warrener_runtime.bus.port import Bus, Handler, Subscription
from warrener_runtime.lifecycle import ManagedComponent


class ControlConsumer(ManagedComponent):
    """Listens to one low-rate queue as long as it lives, draining included: cancellations are heard to the
    end."""

    def __init__(self, bus: Bus, queue: str, handler: Handler) -> None:
        super().__init__(f"ear on {queue}")
        self._bus, self._queue, self._handler = bus, queue, handler
        self._subscription: Subscription | None = None

    async def _on_start(self) -> None:
        self._subscription = await self._bus.listen(self._queue, self._handler)

    async def _on_stop(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.stop()

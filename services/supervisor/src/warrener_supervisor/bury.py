"""bury: what was dead-lettered, parked or unroutable is kept in the store with its reason. Nothing is
dropped."""

from warrener_contracts.letters import letter_for
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.port import StateStore
from warrener_supervisor import act
from warrener_supervisor.burial import burial, lost_dispatches

_log = get_logger("bury")


class Bury:
    """The verb that empties the queues behind which there is nothing."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Keep one batch. A dispatch that the broker gave up is told to the judge, so that its job goes
        on."""
        now = self._clock.now()
        buried = [burial(delivery, now) for delivery in deliveries]
        await self._store.park(buried)
        lost = [event for delivery in deliveries for event in lost_dispatches(delivery, now)]
        await act.publish(self._bus, [letter_for(event) for event in lost], self._clock)
        await subscription.ack(deliveries)
        _log.warning(
            "Messages were buried; `warrener parked` shows them.",
            action="bury.parked",
            messages=len(buried),
            reasons=sorted({message.reason for message in buried}),
        )

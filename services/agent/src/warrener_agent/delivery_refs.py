"""Deliveries, and when they may be acknowledged."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from warrener_runtime.bus.port import Delivery, Subscription


@dataclass(eq=False, slots=True)
class DeliveryRef:
    """One delivery. A message may carry several events: it is done when all of them are."""

    subscription: Subscription
    delivery: Delivery
    queue: str
    open_events: int
    received_at: float
    acknowledged: bool = field(default=False, init=False)
    runs: int = field(default=0, init=False)  # that share its slot now

    @property
    def is_redelivered_batch(self) -> bool:
        """Whether it carries several and was given out before: one of them may have ended its agent."""
        return self.delivery.redelivered and self.open_events > 1

    def complete_event(self) -> None:
        """One of its events needs the delivery no more."""
        self.open_events -= 1

    @property
    def is_due(self) -> bool:
        """Whether it can be acknowledged now, and was not yet."""
        return self.open_events <= 0 and not self.acknowledged


async def ack_all(delivery_refs: Iterable[DeliveryRef]) -> None:
    """Acknowledge those that are due, by range where the bus can."""
    due: defaultdict[Subscription, list[Delivery]] = defaultdict(list)
    for delivery_ref in delivery_refs:
        if delivery_ref.is_due:
            delivery_ref.acknowledged = True
            due[delivery_ref.subscription].append(delivery_ref.delivery)
    for subscription, deliveries in due.items():
        await subscription.ack(deliveries)

"""Deliveries, and when they may be acknowledged."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from warrener_runtime.bus.port import Delivery, Subscription


@dataclass(eq=False, slots=True)
class Receipt:
    """One delivery. A message may carry several events: it is done when all of them are."""

    subscription: Subscription
    delivery: Delivery
    open_events: int
    received_at: float
    acknowledged: bool = field(default=False, init=False)

    def settle(self) -> None:
        """One of its events needs the delivery no more."""
        self.open_events -= 1

    @property
    def due(self) -> bool:
        """Whether it can be acknowledged now, and was not yet."""
        return self.open_events <= 0 and not self.acknowledged


async def acknowledge(receipts: Iterable[Receipt]) -> None:
    """Acknowledge those that are due, by range where the bus can."""
    due = {id(receipt): receipt for receipt in receipts if receipt.due}
    ordered = sorted(due.values(), key=lambda receipt: id(receipt.subscription))
    for _, group in groupby(ordered, key=lambda receipt: id(receipt.subscription)):
        told = list(group)
        for receipt in told:
            receipt.acknowledged = True
        await told[0].subscription.ack([receipt.delivery for receipt in told])

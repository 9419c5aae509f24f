"""Publish the scheduler's messages."""

from collections.abc import Iterable
from uuid import UUID

from warrener_contracts import outbox
from warrener_contracts.messages import Message
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.publishing import publish_all


async def publish(bus: Bus, messages: Iterable[Message], clock: Clock) -> list[tuple[UUID, int]]:
    """Publish in as few messages as possible and return once the broker has confirmed them.

    Declares missing queues. Returns the attempts whose queue did not take their dispatch.
    """
    deferred = await publish_all(
        bus,
        outbox.combine(messages),
        clock=clock,
        may_defer=outbox.may_defer,
        missing=outbox.missing_topology,
    )
    return outbox.deferred_attempts(deferred)

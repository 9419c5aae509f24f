"""The surroundings that the parts of a scheduler share."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from warrener_contracts import outbox
from warrener_contracts.messages import Message
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.publishing import publish_all
from warrener_runtime.telemetry import Telemetry
from warrener_scheduler.metrics import SchedulerMetrics
from warrener_store.store import Store

UnknownQueues = Mapping[str | None, str]
"""Queues that no request may name, each with the reason."""


class SchedulerPorts(NamedTuple):
    bus: Bus
    store: Store
    clock: Clock
    telemetry: Telemetry
    metrics: SchedulerMetrics

    async def publish(self, messages: Iterable[Message]) -> list[tuple[UUID, int]]:
        """Publish in as few messages as possible and return once the broker has confirmed them.

        Declares missing queues. Returns the attempts whose queue did not take their dispatch.
        """
        deferred = await publish_all(
            self.bus,
            outbox.combine(messages),
            clock=self.clock,
            may_defer=outbox.may_defer,
            missing=outbox.missing_topology,
        )
        return outbox.deferred_attempts(deferred)

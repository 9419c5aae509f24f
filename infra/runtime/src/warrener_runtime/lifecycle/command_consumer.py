"""Commands: queues of low traffic, whose messages are carried out one at a time."""

from collections.abc import Awaitable, Callable

from warrener_runtime.backoff import is_outage
from warrener_runtime.bus.port import Bus, Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle.consumer import Consumer, Probe
from warrener_runtime.lifecycle.crashed_readers import CrashCounts, IsolatingHandler, is_suspect
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry.metrics import Metrics

MAX_RETURNS = 3
"""Returns to the queue after which a command that fails, although there is no outage, is dead-lettered."""
_PREFETCH = 16

_log = get_logger("commands")


def consume_commands(
    queue: str,
    receive: Callable[[Delivery], Awaitable[None]],
    bus: Bus,
    *,
    tries: CrashCounts,
    clock: Clock,
    probe: Probe,
    metrics: Metrics,
) -> Consumer:
    """Make the consumer of a queue of commands.

    Messages are carried out one at a time, in their order: a trigger finds the schedule that was put before
    it. Each is acknowledged after `receive`, which is called again after a failure and after a crash. An
    outage is waited for. A message that fails by a bug would stop the others without end, so it is
    dead-lettered after MAX_RETURNS returns.
    """

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        [delivery] = deliveries
        try:
            await receive(delivery)
        except Exception as error:
            if is_outage(error) or not is_suspect(delivery, MAX_RETURNS):
                raise
            _log.exception(
                "A command was dead-lettered: it kept failing, although there is no outage.",
                action="commands.dead_lettered",
                queue=queue,
                message_id=delivery.message_id,
            )
            await subscription.reject([delivery], requeue=False)
        else:
            await subscription.ack([delivery])

    return Consumer(
        "commands",
        bus,
        queue,
        _PREFETCH,
        IsolatingHandler(queue, handle, tries),
        max_batch_size=1,
        clock=clock,
        probe=probe,
        metrics=metrics,
    )

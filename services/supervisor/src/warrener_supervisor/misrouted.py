"""Messages that were published while their queue was gone, and came by way of what is unroutable: the queue
is declared, and they are published again. Pure."""

from collections.abc import Mapping

from warrener_contracts.messages import Message
from warrener_contracts.topology import DELAY, DELAY_LEVELS, DELAY_QUEUES, STATUS, STATUS_QUEUE, Queue
from warrener_runtime.bus.port import Delivery

_LEVELS: Mapping[str, Queue] = {
    level.name: queue for level, queue in zip(DELAY_LEVELS, DELAY_QUEUES, strict=True)
}


def find_missing_queue(delivery: Delivery) -> Queue | None:
    """The queue of ours that it was published for and did not find; None for all else."""
    if "x-death" in delivery.headers:
        return None
    if delivery.exchange == STATUS:  # its queue takes every key
        return STATUS_QUEUE
    if delivery.exchange == DELAY:
        return _LEVELS.get(delivery.routing_key.partition(".")[0])
    return None


def rebuild_message(delivery: Delivery) -> Message:
    """The same message, as it was published; whoever reads it may have read it before."""
    return Message(
        exchange=delivery.exchange,
        routing_key=delivery.routing_key,
        body=delivery.body,
        content_type=delivery.content_type or "",
        message_id=delivery.message_id or f"astray-{delivery.epoch}-{delivery.tag}",
        type=delivery.type or "",
        headers={name: value for name, value in delivery.headers.items() if isinstance(value, str)},
    )

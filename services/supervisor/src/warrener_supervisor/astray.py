"""What was published to the supervisor's own exchange while its queue was gone, and has come by the way of
what is unroutable: it is sent on its way again. Pure."""

from warrener_contracts.letters import Letter
from warrener_contracts.topology import STATUS
from warrener_runtime.bus.port import Delivery


def is_astray(delivery: Delivery) -> bool:
    """Whether it was told to the supervisor. Its queue takes every key, so there was no queue."""
    return delivery.exchange == STATUS and "x-death" not in delivery.headers


def sent_again(delivery: Delivery) -> Letter:
    """The same message, as it was published; whoever reads it may have read it before."""
    return Letter(
        exchange=delivery.exchange,
        routing_key=delivery.routing_key,
        body=delivery.body,
        content_type=delivery.content_type or "",
        message_id=delivery.message_id or f"astray-{delivery.epoch}-{delivery.tag}",
        type=delivery.type or "",
        headers={name: value for name, value in delivery.headers.items() if isinstance(value, str)},
    )

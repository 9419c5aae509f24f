"""Messages in batches: the port, RabbitMQ, and a broker in memory."""

from warrener_runtime.bus.factory import LaneName, open_bus
from warrener_runtime.bus.port import (
    Bus,
    BusCredentialsRefused,
    BusError,
    BusUnreachable,
    Delivery,
    Handler,
    OutgoingMessage,
    PublishResult,
    QueueStats,
    Subscription,
    TopologyMismatch,
    TopologySpec,
)

__all__ = [
    "Bus",
    "BusCredentialsRefused",
    "BusError",
    "BusUnreachable",
    "Delivery",
    "Handler",
    "LaneName",
    "OutgoingMessage",
    "PublishResult",
    "QueueStats",
    "Subscription",
    "TopologyMismatch",
    "TopologySpec",
    "open_bus",
]

"""Messages in batches: the port, RabbitMQ, and a broker in memory."""

from warrener_runtime.bus.factory import LaneName, open_bus
from warrener_runtime.bus.port import (
    QueueStats,
    Bus,
    BusCredentialsRefused,
    BusError,
    BusUnreachable,
    Delivery,
    PublishResult,
    Handler,
    OutgoingMessage,
    Subscription,
    TopologyMismatch,
    TopologySpec,
)

__all__ = [
    "QueueStats",
    "Bus",
    "BusCredentialsRefused",
    "BusError",
    "BusUnreachable",
    "Delivery",
    "PublishResult",
    "Handler",
    "LaneName",
    "OutgoingMessage",
    "Subscription",
    "TopologyMismatch",
    "TopologySpec",
    "open_bus",
]

"""Messages in batches: the port, RabbitMQ, and a broker in memory."""

from warrener_runtime.bus.opening import LaneName, open_bus
from warrener_runtime.bus.port import (
    Backlog,
    Bus,
    BusCredentialsRefused,
    BusError,
    BusUnreachable,
    Delivery,
    Fate,
    Handler,
    Outgoing,
    Subscription,
    TopologyMismatch,
    TopologySpec,
)

__all__ = [
    "Backlog",
    "Bus",
    "BusCredentialsRefused",
    "BusError",
    "BusUnreachable",
    "Delivery",
    "Fate",
    "Handler",
    "LaneName",
    "Outgoing",
    "Subscription",
    "TopologyMismatch",
    "TopologySpec",
    "open_bus",
]

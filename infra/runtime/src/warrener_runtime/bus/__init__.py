"""Messages in batches: the port, RabbitMQ, and a broker in memory."""

from typing import Literal

from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE, NamespacedBus
from warrener_runtime.bus.port import (
    Bus,
    BusCredentialsRefused,
    BusError,
    BusUnreachable,
    Handler,
    Subscription,
    TopologyMismatch,
)
from warrener_runtime.bus.types import Delivery, OutgoingMessage, PublishResult, QueueStats, TopologySpec

LaneName = Literal["lean", "aio-pika"]

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


def open_bus(url: str, *, name: str, lane: LaneName = "lean", namespace: str = DEFAULT_NAMESPACE) -> Bus:
    """Make a bus on the RabbitMQ at `url`; operators see its connections by `name`. `start()` connects it.

    `lane` is the client library that carries `publish` and `subscribe`: `lean`, our own, for speed, or
    `aio-pika`. FastStream carries `listen` on both. `namespace` is the first word of all our names on the
    broker; code does not see it. Raises ValueError for a malformed namespace.
    """
    # Simulations and pure code need the port alone and do not load RabbitMQ's clients.
    from warrener_runtime.bus.rabbitmq import RabbitBus  # noqa: PLC0415
    from warrener_runtime.bus.rabbitmq.lanes import aio_pika_lane, lean_lane  # noqa: PLC0415

    chosen = lean_lane() if lane == "lean" else aio_pika_lane()
    bus = RabbitBus(url, name=name, lane=chosen, namespace=namespace)
    return bus if namespace == DEFAULT_NAMESPACE else NamespacedBus(bus, namespace)

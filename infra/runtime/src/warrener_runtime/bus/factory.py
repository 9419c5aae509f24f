"""The bus that a URL asks for."""

from typing import Literal

from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE, NamespacedBus
from warrener_runtime.bus.port import Bus

LaneName = Literal["lean", "aio-pika"]


def open_bus(url: str, *, name: str, lane: LaneName = "lean", namespace: str = DEFAULT_NAMESPACE) -> Bus:
    """A bus on the RabbitMQ at `url`; operators see its connections by `name`. `start()` connects it.

    `lane` says which client library carries `publish` and `subscribe`: `lean`, our own, for speed, or
    `aio-pika`. `listen` is FastStream's on both. `namespace` is the first word of all our names on the
    broker; code does not see it. Raises ValueError where it cannot be one.
    """
    # A simulation, or whoever needs the port alone, does not load RabbitMQ's clients.
    from warrener_runtime.bus.rabbit import RabbitBus  # noqa: PLC0415
    from warrener_runtime.bus.rabbit.lanes import aio_pika_lane, lean_lane  # noqa: PLC0415

    chosen = lean_lane() if lane == "lean" else aio_pika_lane()
    bus = RabbitBus(url, name=name, lane=chosen, namespace=namespace)
    return bus if namespace == DEFAULT_NAMESPACE else NamespacedBus(bus, namespace)

"""Messages in batches: the port, RabbitMQ, and a broker in memory."""

from typing import TYPE_CHECKING

from warrener_runtime.bus.port import (
    Bus,
    BusCredentialsRefused,
    BusError,
    BusUnreachable,
    Subscription,
    TopologyMismatch,
)
from warrener_runtime.bus.types import (
    DeclareMode,
    Delivery,
    OutgoingMessage,
    PublishResult,
    QueueStats,
    TopologySpec,
)
from warrener_runtime.namespace import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from warrener_runtime.keys import MessageSigner
    from warrener_runtime.telemetry.metrics import Metrics

__all__ = [
    "Bus",
    "BusCredentialsRefused",
    "BusError",
    "BusUnreachable",
    "DeclareMode",
    "Delivery",
    "OutgoingMessage",
    "PublishResult",
    "QueueStats",
    "Subscription",
    "TopologyMismatch",
    "TopologySpec",
    "open_bus",
]


def open_bus(
    url: str,
    *,
    name: str,
    namespace: str = DEFAULT_NAMESPACE,
    connect_timeout: float | None = None,
    connections: int = 3,
    metrics: "Metrics | None" = None,
    signer: "MessageSigner | None" = None,
    declare: DeclareMode = "if-missing",
    user_id: str | None = None,
) -> Bus:
    """Make a bus on the RabbitMQ at `url`; operators see its connections by `name`. `start()` connects it.

    `namespace` is the first word of all our names on the broker; code does not see it. Raises ValueError for
    a malformed namespace. `connect_timeout`: seconds after which `start()` gives up; None: never.
    `connections`: 1 to 3, see RabbitBus. `signer` signs what is published to its exchange. `declare`: "never"
    for a bus that makes exclusive queues alone. `user_id`: the broker's user that messages name.
    """
    # Simulations and pure code need the port alone and do not load a client of RabbitMQ.
    from warrener_runtime.bus.rabbitmq.bus import RabbitBus  # noqa: PLC0415

    return RabbitBus(
        url,
        name=name,
        namespace=namespace,
        connect_timeout=connect_timeout,
        connections=connections,
        metrics=metrics,
        signer=signer,
        declare=declare,
        user_id=user_id,
    )

"""Which client library carries the hot queues."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from warrener_runtime.bus.rabbit.broker_client import BrokerClient

Connect = Callable[[str, str], Awaitable[BrokerClient]]
"""URL and name of a connection to the connection. Raises BusCredentialsRefused, LinkLost."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A client library. `supports_listen`: FastStream can use its connections."""

    connect: Connect
    supports_listen: bool

    def broker_address(self, url: str) -> str:
        """The broker at this URL, for messages: no credentials, no parameters."""
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port or ''}{parts.path}"


def aio_pika_lane() -> Lane:
    """aiormq, under aio-pika."""
    from warrener_runtime.bus.rabbit.aiormq_client import connect_aiormq  # noqa: PLC0415 - who takes it pays

    return Lane(connect_aiormq, supports_listen=True)


def lean_lane() -> Lane:
    """Our own."""
    from warrener_runtime.bus.lean import connect_lean  # noqa: PLC0415 - who takes it pays

    return Lane(connect_lean, supports_listen=False)

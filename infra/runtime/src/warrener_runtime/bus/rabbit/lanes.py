"""Which client library carries the hot queues."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from warrener_runtime.bus.rabbit.wire import Wire

Connect = Callable[[str, str], Awaitable[Wire]]
"""URL and name of a connection to the connection. Raises BusCredentialsRefused, LinkLost."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A client library. `listens`: FastStream can use its connections."""

    connect: Connect
    listens: bool

    def where(self, url: str) -> str:
        """The broker at this URL, for messages: no credentials, no parameters."""
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port or ''}{parts.path}"


def aio_pika_lane() -> Lane:
    """aiormq, under aio-pika."""
    from warrener_runtime.bus.rabbit.aiormq_wire import connect_aiormq  # noqa: PLC0415 - who takes it pays

    return Lane(connect_aiormq, listens=True)


def lean_lane() -> Lane:
    """Our own."""
    from warrener_runtime.bus.lean import connect_lean  # noqa: PLC0415 - who takes it pays

    return Lane(connect_lean, listens=False)

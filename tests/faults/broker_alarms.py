"""A broker that is low on memory, and takes no messages."""

from collections.abc import Generator
from contextlib import contextmanager

from tests.servers.kinds import RabbitMQServer

_LIMIT = "vm_memory_monitor:set_vm_memory_high_watermark({}), ok."


@contextmanager
def low_on_memory(node: RabbitMQServer) -> Generator[None]:
    """While the node has an alarm, which it notices within a second."""
    node.evaluate(_LIMIT.format("0.000001"))
    try:
        yield
    finally:
        node.evaluate(_LIMIT.format("0.4"))

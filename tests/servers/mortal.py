"""A RabbitMQ node for one test after another to kill, pause or restart.

A node's start costs five seconds of processor time and more of waiting. The node outlives the test that used
it, so that the services of that test can end in order, and is emptied when the next test needs it.
"""

from collections.abc import Callable
from typing import Self

from tests.servers.kinds import RabbitMQServer

from warrener_devservers import ServerFailed


class MortalRabbitMQ:
    """Hands out a node that runs and is empty; a new one if the last did not survive its test."""

    def __init__(self, make: Callable[[], RabbitMQServer]) -> None:
        self._make = make
        self._node: RabbitMQServer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def hand_out(self) -> RabbitMQServer:
        """Return the node, running and empty. Raises ServerMissing."""
        if self._node is None or not _emptied(self._node):
            self._remove()
            self._node = self._make()
            self._node.start()
        return self._node

    def _remove(self) -> None:
        if self._node is not None:
            self._node.remove()
        self._node = None


def _emptied(node: RabbitMQServer) -> bool:
    """Empty the node; False if it no longer can be."""
    if not node.running:
        return False
    node.resume()
    try:
        node.clear()
    except ServerFailed:
        return False
    return True

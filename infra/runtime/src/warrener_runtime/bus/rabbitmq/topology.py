"""Declaring exchanges and queues, and declaring them again after every reconnect."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from warrener_runtime.bus.port import TopologyMismatch
from warrener_runtime.bus.rabbitmq.client import BrokerClient
from warrener_runtime.bus.types import BindingSpec, ExchangeSpec, QueueSpec, TopologySpec
from warrener_runtime.logs import get_logger

_KINDS = frozenset({"topic", "fanout", "direct", "headers"})

_log = get_logger(__name__)


def validate_exchange_kind(exchange: ExchangeSpec) -> str:
    """Check and return the kind. Raises TopologyMismatch for others, over which RabbitMQ 3.10 closes the
    connection."""
    if exchange.kind not in _KINDS:
        raise TopologyMismatch(
            f"expected an exchange kind of {sorted(_KINDS)}, got {exchange.kind!r} for {exchange.name!r};"
            " use one of these"
        )
    return exchange.kind


def mismatch(what: str, reason: str) -> TopologyMismatch:
    """Make the error for a refused declaration."""
    return TopologyMismatch(
        f"expected {what} as this version of Warrener declares it, got: {reason};"
        " remove or rename what is there, or grant the permission"
    )


class DeclaredTopology:
    """The exchanges and queues that a bus keeps declared."""

    def __init__(self) -> None:
        self._exchanges: dict[str, ExchangeSpec] = {}
        self._queues: dict[str, QueueSpec] = {}

    def keep(self, topology: TopologySpec) -> None:
        """Add to the topology."""
        self._exchanges.update((exchange.name, exchange) for exchange in topology.exchanges)
        self._queues.update((queue.name, queue) for queue in topology.queues)

    def is_exclusive(self, queue: str) -> bool:
        """True if the queue belongs to the connection that declared it."""
        known = self._queues.get(queue)
        return known is not None and known.exclusive

    async def restore_shared(self, client: BrokerClient) -> None:
        """Declare all but the exclusive queues, after a reconnect."""
        await self._restore(client, [queue for queue in self._queues.values() if not queue.exclusive])

    async def restore_all(self, client: BrokerClient) -> None:
        """Declare everything, after a reconnect of the connection that owns the exclusive queues."""
        await self._restore(client, list(self._queues.values()))

    async def restore_queue(self, client: BrokerClient, name: str) -> None:
        """Declare a queue before it is consumed, as it may have been deleted. Raises TopologyMismatch."""
        if (queue := self._queues.get(name)) is not None:
            await client.declare((), [queue])

    async def _restore(self, client: BrokerClient, queues: list[QueueSpec]) -> None:
        """Declare all; one that fails does not prevent the others."""
        try:
            await client.declare(self._exchanges.values(), queues)
        except TopologyMismatch:
            for exchange in self._exchanges.values():
                await _declare_or_log(client, [exchange], [])
            for queue in queues:
                await _declare_or_log(client, [], [queue])


async def bind(client: BrokerClient, queue: QueueSpec) -> list[BindingSpec]:
    """Declare and bind a queue; return the bindings whose exchange is missing. Raises
    BrokerConnectionLost."""
    exchanges = {binding.exchange for binding in queue.bindings}
    there = {name for name in exchanges if await client.has_exchange(name)}
    bound = [binding for binding in queue.bindings if binding.exchange in there]
    await client.declare((), [_BoundQueue(queue.name, bound, queue.arguments, queue.exclusive)])
    return [binding for binding in queue.bindings if binding.exchange not in there]


class _BoundQueue(NamedTuple):
    """A queue with those of its bindings that can be made."""

    name: str
    bindings: Sequence[BindingSpec]
    arguments: Mapping[str, str | int]
    exclusive: bool


async def _declare_or_log(
    client: BrokerClient, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    try:
        await client.declare(exchanges, queues)
    except TopologyMismatch as error:
        _log.error(
            "A part of the topology could not be declared again after a reconnect. " + str(error),
            action="bus.topology_mismatch",
        )

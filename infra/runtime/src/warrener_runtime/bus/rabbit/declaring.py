"""Making exchanges and queues exist, and again after every reconnect."""

from collections.abc import Iterable

import aiormq

from warrener_runtime.bus.port import ExchangeSpec, QueueSpec, TopologyMismatch, TopologySpec
from warrener_runtime.bus.rabbit.connection import RPC_SECONDS, Connection, close_quietly, open_channel
from warrener_runtime.bus.rabbit.faults import broker_faults
from warrener_runtime.bus.rabbit.frames import unless_ended
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)

_KINDS = frozenset({"topic", "fanout", "direct", "headers"})


class Declarations:
    """What a bus was asked to keep in existence."""

    def __init__(self) -> None:
        self._exchanges: dict[str, ExchangeSpec] = {}
        self._queues: dict[str, QueueSpec] = {}

    def keep(self, topology: TopologySpec) -> None:
        """Declare these too from now on."""
        self._exchanges.update((exchange.name, exchange) for exchange in topology.exchanges)
        self._queues.update((queue.name, queue) for queue in topology.queues)

    async def restore_shared(self, connection: Connection) -> None:
        """After a reconnect, on the connection that publishes: all but the exclusive queues."""
        await self._restore(connection, [queue for queue in self._queues.values() if not queue.exclusive])

    async def restore_all(self, connection: Connection) -> None:
        """After a reconnect, on the connection that consumes, to which exclusive queues belong."""
        await self._restore(connection, list(self._queues.values()))

    async def restore_queue(self, connection: Connection, name: str) -> None:
        """Before it is consumed: it may have been deleted. Raises TopologyMismatch."""
        if (queue := self._queues.get(name)) is not None:
            await declare(connection, (), [queue])

    async def _restore(self, connection: Connection, queues: list[QueueSpec]) -> None:
        """One that cannot be declared does not keep the others away."""
        try:
            await declare(connection, self._exchanges.values(), queues)
        except TopologyMismatch:
            for exchange in self._exchanges.values():
                await _declare_or_say(connection, [exchange], [])
            for queue in queues:
                await _declare_or_say(connection, [], [queue])


async def declare(
    connection: Connection, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    """Declare all, on a channel of its own. Raises TopologyMismatch at the first that differs; LinkLost."""
    channel = await open_channel(connection, aiormq.Channel)
    try:
        await unless_ended(connection, _declare(channel, exchanges, queues))
    finally:
        await close_quietly(channel)


async def _declare(
    channel: aiormq.Channel, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    for exchange in exchanges:
        await _declare_exchange(channel, exchange)
    for queue in queues:
        await _declare_queue(channel, queue)


async def _declare_exchange(channel: aiormq.Channel, exchange: ExchangeSpec) -> None:
    if exchange.kind not in _KINDS:
        # RabbitMQ 3.10 closes the whole connection over it.
        raise TopologyMismatch(
            f"expected an exchange kind of {sorted(_KINDS)}, got {exchange.kind!r} for {exchange.name!r};"
            " use one of these"
        )
    with _mismatch_of(f"exchange {exchange.name!r}"), broker_faults():
        await channel.exchange_declare(
            exchange.name,
            exchange_type=exchange.kind,
            durable=True,
            arguments=None if exchange.alternate is None else {"alternate-exchange": exchange.alternate},
            timeout=RPC_SECONDS,
        )


async def _declare_queue(channel: aiormq.Channel, queue: QueueSpec) -> None:
    with _mismatch_of(f"queue {queue.name!r}"), broker_faults():
        await channel.queue_declare(
            queue.name,
            durable=not queue.exclusive,
            exclusive=queue.exclusive,
            arguments=dict(queue.arguments),
            timeout=RPC_SECONDS,
        )
        for binding in queue.bindings:
            await channel.queue_bind(queue.name, binding.exchange, binding.key, timeout=RPC_SECONDS)


class _mismatch_of:  # noqa: N801 - it reads as a statement
    """A refused declaration, told as TopologyMismatch with the name of what was refused."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, aiormq.AMQPChannelError):
            raise TopologyMismatch(
                f"expected {self._what} as this version of Warrener declares it, got: {error};"
                " remove or rename what is there, or grant the permission"
            ) from error


async def _declare_or_say(
    connection: Connection, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    try:
        await declare(connection, exchanges, queues)
    except TopologyMismatch as error:
        _log.error(
            "A part of the topology could not be declared again after a reconnect. " + str(error),
            action="bus.topology_mismatch",
        )

"""A connection by warrener_amqp."""

import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterable

from pamqp import commands
from pamqp.base import Frame as Method

from warrener_amqp import (
    Address,
    AuthenticationRefused,
    Channel,
    ChannelRefused,
    Session,
    open_session,
    parse_addresses,
)
from warrener_runtime.bus.port import BusCredentialsRefused, TopologyMismatch
from warrener_runtime.bus.rabbitmq.client import (
    DECLARE_SECONDS,
    BrokerConnectionLost,
    ConsumerListener,
    RequestRefused,
)
from warrener_runtime.bus.rabbitmq.lean.calls import translate_amqp_errors, with_timeout
from warrener_runtime.bus.rabbitmq.lean.consumer_channel import LeanConsumerChannel
from warrener_runtime.bus.rabbitmq.lean.publisher_channel import LeanPublisherChannel
from warrener_runtime.bus.rabbitmq.topology import accept_limit, mismatch, validate_exchange_kind
from warrener_runtime.bus.types import BindingSpec, ExchangeSpec, QueueSpec, QueueStats

_NOT_FOUND = 404
_EXISTS = frozenset({403, 405})  # no access, exclusive to another connection
_DECLARED: dict[type[Method], type[Method]] = {
    commands.Exchange.Declare: commands.Exchange.DeclareOk,
    commands.Queue.Declare: commands.Queue.DeclareOk,
}


async def declare_on(
    channel: Channel, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    """Declare all. Raises TopologyMismatch at the first that differs; BrokerConnectionLost."""
    for exchange in exchanges:
        await _declare_exchange(channel, exchange)
    for queue in queues:
        await _declare_queue(channel, queue)


async def _declare_exchange(channel: Channel, exchange: ExchangeSpec) -> None:
    method = commands.Exchange.Declare(
        exchange=exchange.name,
        exchange_type=validate_exchange_kind(exchange),
        durable=True,
        arguments=None if exchange.alternate is None else {"alternate-exchange": exchange.alternate},
    )
    try:
        with translate_amqp_errors():
            await with_timeout(channel.call(method, commands.Exchange.DeclareOk), DECLARE_SECONDS)
    except RequestRefused as refused:
        raise mismatch(f"exchange {exchange.name!r}", str(refused)) from refused


async def _declare_queue(channel: Channel, queue: QueueSpec) -> None:
    method = commands.Queue.Declare(
        queue=queue.name,
        durable=not queue.exclusive,
        exclusive=queue.exclusive,
        arguments=dict(queue.arguments),
    )
    try:
        with translate_amqp_errors():
            await with_timeout(channel.call(method, commands.Queue.DeclareOk), DECLARE_SECONDS)
            for binding in queue.bindings:
                bind = commands.Queue.Bind(
                    queue=queue.name, exchange=binding.exchange, routing_key=binding.key
                )
                await with_timeout(channel.call(bind, commands.Queue.BindOk), DECLARE_SECONDS)
    except RequestRefused as refused:
        raise mismatch(f"queue {queue.name!r}", str(refused)) from refused


async def connect_lean(url: str, name: str) -> "LeanClient":
    """Connect, in one try of each host. Raises BusCredentialsRefused or BrokerConnectionLost."""
    addresses = [address.with_name(name) for address in parse_addresses(url)]
    try:
        with translate_amqp_errors():
            session, _ = await open_session(addresses)
    except BrokerConnectionLost as error:
        if isinstance(error.__cause__, AuthenticationRefused):
            where = addresses[0]
            raise BusCredentialsRefused(
                f"expected the broker at {describe_hosts(addresses)} to let {where.credentials.description}"
                f" into virtual host {where.params.virtual_host!r}, got: {error}; correct the broker URL, or"
                " create the user, its permissions or the virtual host"
            ) from error
        raise
    return LeanClient(session)


def describe_hosts(addresses: Iterable[Address]) -> str:
    """Name the hosts and ports, without credentials."""
    return ",".join(map(str, addresses))


class LeanClient:
    """One connection to the broker."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def is_open(self) -> bool:
        """True if the connection is not known to be broken."""
        return self._session.is_open

    async def wait_closed(self) -> None:
        await self._session.wait_closed()

    @property
    def blocked(self) -> str | None:
        """Why the broker reads no publishes, in its words; None if it does."""
        return self._session.blocked

    async def wait_unblocked(self) -> None:
        """Wait while the broker reads no publishes."""
        if self._session.blocked is not None:
            with translate_amqp_errors():
                await self._session.wait_unblocked()

    async def declare(self, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]) -> None:
        """Declare these. A queue that exists with another delivery limit is used as it is."""
        exchanges, left = list(exchanges), list(queues)
        while True:
            try:
                async with self._channel() as channel:
                    return await declare_on(channel, exchanges, left)
            except TopologyMismatch as error:
                if not accept_limit(left, str(error)):
                    raise

    async def unbind(self, queue: str, bindings: Iterable[BindingSpec]) -> None:
        """Remove these bindings where they exist."""
        async with self._channel() as channel:
            with translate_amqp_errors():
                for binding in bindings:
                    method = commands.Queue.Unbind(
                        queue=queue, exchange=binding.exchange, routing_key=binding.key
                    )
                    await with_timeout(channel.call(method, commands.Queue.UnbindOk))

    async def missing(self, exchanges: Iterable[str], queues: Iterable[str] = ()) -> set[str]:
        """Look for exchanges and queues. A passive declaration that fails closes its channel, and the next
        one takes another."""
        looks = deque[commands.Exchange.Declare | commands.Queue.Declare](
            commands.Exchange.Declare(exchange=name, passive=True) for name in exchanges
        )
        looks += [commands.Queue.Declare(queue=name, passive=True) for name in queues]
        found: set[str] = set()
        while looks:
            async with self._channel() as channel:
                with translate_amqp_errors():
                    try:
                        while looks:
                            await with_timeout(channel.call(looks[0], _DECLARED[type(looks[0])]))
                            looks.popleft()
                    except ChannelRefused as refused:
                        look = looks.popleft()
                        if refused.code == _NOT_FOUND:
                            found.add(
                                look.exchange if isinstance(look, commands.Exchange.Declare) else look.queue
                            )
                        elif refused.code not in _EXISTS:  # publishing or consuming shows the refusal
                            raise
        return found

    async def backlog(self, queue: str) -> QueueStats:
        """Count the messages that wait in a queue. On a channel of its own, because a passive declaration
        that fails closes the channel."""
        method = commands.Queue.Declare(queue=queue, passive=True)
        async with self._channel() as channel:
            with translate_amqp_errors():
                try:
                    found = await with_timeout(channel.call(method, commands.Queue.DeclareOk))
                except ChannelRefused as refused:
                    if refused.code != _NOT_FOUND:
                        raise
                    return QueueStats(0, 0)
        return QueueStats(found.message_count or 0, found.consumer_count or 0)

    async def open_publisher(self) -> LeanPublisherChannel:
        """Open a channel that publishes."""
        publishing = LeanPublisherChannel(self._session)
        with translate_amqp_errors():
            await with_timeout(publishing.open())
        return publishing

    async def open_consumer(
        self, queue: str, prefetch: int, listener: ConsumerListener
    ) -> LeanConsumerChannel:
        """Consume `queue` on a channel of its own."""
        consuming = LeanConsumerChannel(self._session, listener)
        try:
            with translate_amqp_errors():
                await consuming.open(queue, prefetch)
        except BaseException:
            await consuming.close()
            raise
        return consuming

    async def close(self) -> None:
        """Close the connection, broken or not."""
        await self._session.close()

    @contextlib.asynccontextmanager
    async def _channel(self) -> AsyncGenerator[Channel]:
        with translate_amqp_errors():
            channel = await with_timeout(self._session.channel())
        try:
            yield channel
        finally:
            with contextlib.suppress(BrokerConnectionLost), translate_amqp_errors():
                await with_timeout(channel.close())

"""A connection by warrener_amqp."""

import contextlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from functools import cache

from pamqp import commands
from pamqp.base import Frame as Method

from warrener_amqp.address import parse_addresses
from warrener_amqp.channel import Channel
from warrener_amqp.errors import AuthenticationRefused, ChannelRefused
from warrener_amqp.session import Session, open_session
from warrener_runtime.bus.port import BusCredentialsRefused, DeclarationForbidden, TopologyMismatch
from warrener_runtime.bus.rabbitmq.channels import (
    DECLARE_SECONDS,
    BrokerConnectionLost,
    ConsumerChannel,
    ConsumerListener,
    PublisherChannel,
    RequestRefused,
    translate_amqp_errors,
    with_timeout,
)
from warrener_runtime.bus.types import BindingSpec, ExchangeSpec, NamedQueue, QueueSpec, QueueStats
from warrener_runtime.logs import get_logger

_NOT_FOUND = 404
_EXISTS = frozenset({403, 405})  # no access, exclusive to another connection
_DECLARED: dict[type[Method], type[Method]] = {
    commands.Exchange.Declare: commands.Exchange.DeclareOk,
    commands.Queue.Declare: commands.Queue.DeclareOk,
}
_LIMIT = "x-delivery-limit"
_OTHER_LIMIT = re.compile(
    rf"inequivalent arg '{_LIMIT}' for queue '(?P<queue>[^']+)' .*current is ('(?P<limit>[0-9]+)'|none)"
)
"""The broker's reason for refusing a queue that exists with another delivery limit."""
_KINDS = frozenset({"topic", "fanout", "direct", "headers"})

_log = get_logger(__name__)


def _mismatch(what: str, reason: str) -> TopologyMismatch:
    """Make the error for a refused declaration."""
    return (DeclarationForbidden if reason.startswith("403:") else TopologyMismatch)(
        f"expected {what} as this version of Warrener declares it, got: {reason};"
        " remove or rename what is there, or grant the permission"
    )


async def _declare_exchange(channel: Channel, exchange: ExchangeSpec) -> None:
    if exchange.kind not in _KINDS:  # RabbitMQ 3.10 closes the connection over another one
        raise TopologyMismatch(
            f"expected an exchange kind of {sorted(_KINDS)}, got {exchange.kind!r} for {exchange.name!r};"
            " use one of these"
        )
    method = commands.Exchange.Declare(
        exchange=exchange.name,
        exchange_type=exchange.kind,
        durable=True,
        arguments=None if exchange.alternate is None else {"alternate-exchange": exchange.alternate},
    )
    try:
        with translate_amqp_errors():
            await with_timeout(channel.call(method, commands.Exchange.DeclareOk), DECLARE_SECONDS)
    except RequestRefused as refused:
        raise _mismatch(f"exchange {exchange.name!r}", str(refused)) from refused


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
        raise _mismatch(f"queue {queue.name!r}", str(refused)) from refused


def _accept_limit(queues: list[QueueSpec], reason: str) -> bool:
    """Replace the delivery limit of the queue that `reason` names by the one that it has on the broker.

    The limit differs between versions and cannot be changed, and a service can work with any. False if the
    reason is another one.
    """
    if (found := _OTHER_LIMIT.search(reason)) is None:
        return False
    for place, queue in enumerate(queues):
        if queue.name == found["queue"]:
            limit = {} if found["limit"] is None else {_LIMIT: int(found["limit"])}
            others = {key: value for key, value in queue.arguments.items() if key != _LIMIT}
            queues[place] = NamedQueue(queue.name, queue.bindings, {**others, **limit}, queue.exclusive)
            _log_limit(queue.name, found["limit"])
            return queues[place].arguments != queue.arguments
    return False


@cache  # once for each queue, as declarations are repeated
def _log_limit(queue: str, limit: str | None) -> None:
    _log.warning(
        "A queue has the delivery limit of another version, and is used as it is;"
        " `warrener topology --check` says how to replace it.",
        action="bus.other_limit",
        queue=queue,
        limit=limit,
    )


async def connect_rabbit(url: str, name: str) -> "RabbitClient":
    """Connect, in one try of each host. Raises BusCredentialsRefused or BrokerConnectionLost."""
    addresses = [address.with_name(name) for address in parse_addresses(url)]
    try:
        with translate_amqp_errors():
            session, _ = await open_session(addresses)
    except BrokerConnectionLost as error:
        if isinstance(error.__cause__, AuthenticationRefused):
            where, hosts = addresses[0], ",".join(map(str, addresses))
            raise BusCredentialsRefused(
                f"expected the broker at {hosts} to let {where.credentials.description}"
                f" into virtual host {where.params.virtual_host!r}, got: {error}; correct the broker URL, or"
                " create the user, its permissions or the virtual host"
            ) from error
        raise
    return RabbitClient(session)


class RabbitClient:
    """One connection to the broker."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def wait_unblocked(self) -> None:
        """Wait while the broker reads no publishes. Raises BrokerConnectionLost."""
        if self.session.blocked is not None:
            with translate_amqp_errors():
                await self.session.wait_unblocked()

    async def declare(self, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]) -> None:
        """Declare these; a queue that exists with another delivery limit is used as it is. Raises
        TopologyMismatch at the first that differs; BrokerConnectionLost."""
        exchanges, left = list(exchanges), list(queues)
        while True:
            try:
                async with self._channel() as channel:
                    for exchange in exchanges:
                        await _declare_exchange(channel, exchange)
                    for queue in left:
                        await _declare_queue(channel, queue)
                    return
            except TopologyMismatch as error:
                if not _accept_limit(left, str(error)):
                    raise

    async def unbind(self, queue: str, bindings: Iterable[BindingSpec]) -> None:
        """Remove these bindings where they exist. Raises BrokerConnectionLost."""
        async with self._channel() as channel:
            with translate_amqp_errors():
                for binding in bindings:
                    method = commands.Queue.Unbind(
                        queue=queue, exchange=binding.exchange, routing_key=binding.key
                    )
                    await with_timeout(channel.call(method, commands.Queue.UnbindOk))

    async def missing(self, exchanges: Iterable[str], queues: Iterable[str] = ()) -> set[str]:
        """Look for exchanges and queues, and return the names of those that do not exist. Raises
        BrokerConnectionLost.

        A passive declaration that fails closes its channel, and the next one takes another.
        """
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
        """Count the waiting messages and the consumers of a queue. Raises BrokerConnectionLost.

        On a channel of its own, because a passive declaration that fails closes the channel.
        """
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

    async def open_publisher(self) -> PublisherChannel:
        """Open a channel that publishes. Raises BrokerConnectionLost."""
        publishing = PublisherChannel(self.session)
        with translate_amqp_errors():
            await with_timeout(publishing.open())
        return publishing

    async def open_consumer(self, queue: str, prefetch: int, listener: ConsumerListener) -> ConsumerChannel:
        """Consume `queue` on a channel of its own. Raises BrokerConnectionLost, RequestRefused."""
        consuming = ConsumerChannel(self.session, listener)
        try:
            with translate_amqp_errors():
                await consuming.open(queue, prefetch)
        except BaseException:
            await consuming.close()
            raise
        return consuming

    async def close(self) -> None:
        """Close the connection, broken or not, without waiting for a silent peer."""
        await self.session.close()

    @contextlib.asynccontextmanager
    async def _channel(self) -> AsyncGenerator[Channel]:
        with translate_amqp_errors():
            channel = await with_timeout(self.session.channel())
        try:
            yield channel
        finally:
            with contextlib.suppress(BrokerConnectionLost), translate_amqp_errors():
                await with_timeout(channel.close())

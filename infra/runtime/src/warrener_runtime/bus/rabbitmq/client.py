"""A connection by warrener_amqp."""

import contextlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from functools import cache
from typing import NamedTuple

from pamqp import commands
from pamqp.base import Frame as Method

from warrener_amqp.address import parse_addresses
from warrener_amqp.channel import Channel
from warrener_amqp.errors import AuthenticationRefused, ChannelRefused, ConnectionLost, describe_tls_error
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
    rf"inequivalent arg '{_LIMIT}' for queue '[^']+' .*current is ('(?P<limit>[0-9]+)'|none)"
)
"""The broker's reason for refusing a queue that exists with another delivery limit."""
_KINDS = frozenset({"topic", "fanout", "direct", "headers"})

_log = get_logger(__name__)


class MissingPieces(NamedTuple):
    """The names of exchanges and queues that do not exist."""

    exchanges: set[str]
    queues: set[str]

    def concerns(self, queue: QueueSpec) -> bool:
        """True if the queue, or an exchange that it is bound to, is missing."""
        bound = (binding.exchange in self.exchanges for binding in queue.bindings)
        return queue.name in self.queues or any(bound)


def _mismatch(what: str, reason: str, rights: str) -> TopologyMismatch:
    """Make the error for a refused step, which needs these rights to the piece that the reason names."""
    text = (
        f"expected {what} as this version of Warrener declares it, got: {reason};"
        " remove or rename what is there, or grant the permission"
    )
    return DeclarationForbidden(text, rights) if reason.startswith("403:") else TopologyMismatch(text)


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
        own = "configure" if exchange.alternate is None else "configure and read"
        rights = own if f"'{exchange.name}'" in str(refused) else "write"  # of its alternate
        raise _mismatch(f"exchange {exchange.name!r}", str(refused), rights) from refused


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
    except RequestRefused as refused:
        own = "configure and read" if "x-dead-letter-exchange" in queue.arguments else "configure"
        raise _mismatch(f"queue {queue.name!r}", str(refused), _rights(own, "write", refused)) from refused


async def _bind_queue(channel: Channel, queue: QueueSpec) -> None:
    try:
        with translate_amqp_errors():
            for binding in queue.bindings:
                bind = commands.Queue.Bind(
                    queue=queue.name, exchange=binding.exchange, routing_key=binding.key
                )
                await with_timeout(channel.call(bind, commands.Queue.BindOk), DECLARE_SECONDS)
    except RequestRefused as refused:
        rights = _rights("write", "read", refused)
        raise _mismatch(f"binding of queue {queue.name!r}", str(refused), rights) from refused


def _rights(of_queue: str, of_exchange: str, refused: RequestRefused) -> str:
    """Choose the rights that a step needs; RabbitMQ 3.10 says the kind of the refused piece alone."""
    return of_queue if "to queue '" in str(refused) else of_exchange


def _with_other_limit(queue: QueueSpec, reason: str) -> QueueSpec | None:
    """Return the queue with the delivery limit that it has on the broker; None if the reason is another one.

    The limit differs between versions and cannot be changed, and a service can work with any.
    """
    if (found := _OTHER_LIMIT.search(reason)) is None:
        return None
    limit = {} if found["limit"] is None else {_LIMIT: int(found["limit"])}
    others = {key: value for key, value in queue.arguments.items() if key != _LIMIT}
    known = NamedQueue(queue.name, queue.bindings, {**others, **limit}, queue.exclusive)
    _log_limit(queue.name, found["limit"])
    return known if known.arguments != queue.arguments else None


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
        if problem := describe_tls_error(error, ",".join(map(str, addresses))):
            raise BusCredentialsRefused(problem) from error
        if addresses[0].secure and isinstance(error.__cause__, ConnectionLost):
            # It may close before its reason is read.
            hint = "if it refuses this client's certificate, its log says so"
            raise BrokerConnectionLost(f"{error}; {hint}") from error
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
        exchanges, left = list(exchanges), deque(queues)
        while exchanges or left:
            async with self._channel() as channel:
                while exchanges:
                    await _declare_exchange(channel, exchanges[0])
                    del exchanges[0]
                try:
                    while left:
                        await _declare_queue(channel, left[0])
                        await _bind_queue(channel, left.popleft())
                except TopologyMismatch as error:
                    if not left or (known := _with_other_limit(left[0], str(error))) is None:
                        raise
                    left[0] = known

    async def bind(self, queue: QueueSpec) -> None:
        """Bind a queue that exists. Raises TopologyMismatch, BrokerConnectionLost."""
        if queue.bindings:
            async with self._channel() as channel:
                await _bind_queue(channel, queue)

    async def unbind(self, queue: str, bindings: Iterable[BindingSpec]) -> None:
        """Remove these bindings where they exist. Raises BrokerConnectionLost."""
        async with self._channel() as channel:
            with translate_amqp_errors():
                for binding in bindings:
                    method = commands.Queue.Unbind(
                        queue=queue, exchange=binding.exchange, routing_key=binding.key
                    )
                    await with_timeout(channel.call(method, commands.Queue.UnbindOk))

    async def missing(self, exchanges: Iterable[str], queues: Iterable[str] = ()) -> MissingPieces:
        """Look for exchanges and queues. Raises BrokerConnectionLost.

        RabbitMQ 4.3 lets those look who may configure, write or read the piece; one at which the user may not
        look counts as there. A passive declaration that fails closes its channel, and the next takes another.
        """
        looks = deque[commands.Exchange.Declare | commands.Queue.Declare](
            commands.Exchange.Declare(exchange=name, passive=True) for name in exchanges
        )
        looks += [commands.Queue.Declare(queue=name, passive=True) for name in queues]
        found = MissingPieces(set(), set())
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
                            if isinstance(look, commands.Exchange.Declare):
                                found.exchanges.add(look.exchange)
                            else:
                                found.queues.add(look.queue)
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

    async def open_publisher(self, user_id: str | None) -> PublisherChannel:
        """Open a channel whose messages name this user. Raises BrokerConnectionLost."""
        publishing = PublisherChannel(self.session, user_id)
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

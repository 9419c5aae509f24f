"""The Bus port on RabbitMQ."""

import asyncio
from collections.abc import Sequence
from functools import partial
from urllib.parse import urlsplit

from warrener_runtime.bus.port import BusUnreachable, Handler, Subscription
from warrener_runtime.bus.rabbitmq.client import BrokerClient, BrokerConnectionLost, RequestRefused
from warrener_runtime.bus.rabbitmq.connection import ReconnectingConnection
from warrener_runtime.bus.rabbitmq.consumer import RabbitSubscription
from warrener_runtime.bus.rabbitmq.lean import connect_lean
from warrener_runtime.bus.rabbitmq.ping import Pinger
from warrener_runtime.bus.rabbitmq.publisher import RabbitPublisher
from warrener_runtime.bus.rabbitmq.topology import DeclaredTopology, bind
from warrener_runtime.bus.subscriptions import HandlerSubscription
from warrener_runtime.bus.types import (
    BindingSpec,
    OutgoingMessage,
    PublishResult,
    QueueSpec,
    QueueStats,
    TopologySpec,
)
from warrener_runtime.clock import SystemClock
from warrener_runtime.namespace import DEFAULT_NAMESPACE

_ANSWER_WITHIN = 5.0  # seconds
_HANDLER_PREFETCH = 10


class RabbitBus:
    """A bus with two connections: a memory alarm stops the broker from reading one that has published, and
    acknowledgements on it would wait until the alarm is over.

    A third connection carries `listen` and the exclusive queues, so that control messages and heartbeats do
    not share a socket with work. It is opened for the first of them.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        namespace: str = DEFAULT_NAMESPACE,
        connect_timeout: float | None = None,
    ) -> None:
        self._declared = DeclaredTopology()
        self._connect_timeout = connect_timeout
        self._address = broker_address = _broker_address(url)
        self._publish_connection = ReconnectingConnection(
            partial(connect_lean, url, f"{name} publishes"),
            "publishing",
            self._prepare_publishing,
            broker_address,
        )
        self._consume_connection = ReconnectingConnection(
            partial(connect_lean, url, f"{name} consumes"),
            "consuming",
            self._declared.restore_shared,
            broker_address,
        )
        self._listen_connection = ReconnectingConnection(
            partial(connect_lean, url, f"{name} listens"),
            "listening",
            self._declared.restore_all,
            broker_address,
        )
        self._listen_started = False
        self._listen_starting = asyncio.Lock()
        self._publisher = RabbitPublisher(self._publish_connection)
        self._pinger = Pinger(self._consume_connection, self._publisher, namespace)
        self._subscriptions: list[RabbitSubscription] = []
        self._handler_subscriptions: list[HandlerSubscription] = []
        self._closed = False

    async def start(self) -> None:
        """Connect, with retries. Raises BusCredentialsRefused at once, and BusUnreachable after
        `connect_timeout`."""
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._consume_connection.start()
                await self._publish_connection.start()
        except TimeoutError:
            await self.close()
            cause = self._consume_connection.last_error or self._publish_connection.last_error
            raise BusUnreachable(
                f"expected a broker at {self._address} within {self._connect_timeout:g} s, "
                f"got: {cause or 'no answer'}; start it, or correct the broker URL"
            ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect; unacknowledged deliveries go back. May be called twice, or never started."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(
            *(handler_subscription.close() for handler_subscription in self._handler_subscriptions)
        )
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))
        await asyncio.gather(
            self._publish_connection.close(),
            self._consume_connection.close(),
            self._listen_connection.close(),
        )

    async def declare(self, topology: TopologySpec) -> None:
        """Declare these, now and after each reconnect. Raises TopologyMismatch."""
        exclusive = [queue for queue in topology.queues if queue.exclusive]
        shared = [queue for queue in topology.queues if not queue.exclusive]
        await self._declare(self._consume_connection, topology, shared)
        if exclusive:
            connection = await self._ensure_listening()
            await self._declare(connection, topology, exclusive)
        self._declared.keep(topology)

    async def bind(self, queue: QueueSpec) -> list[BindingSpec]:
        """Declare and bind a queue; return the bindings whose exchange is missing."""
        while True:
            client = await self._consume_connection.wait_connected()
            try:
                return await bind(client, queue)
            except BrokerConnectionLost:
                continue  # as in _declare

    async def unbind(self, queue: str, bindings: Sequence[BindingSpec]) -> None:
        """Remove these bindings where they exist."""
        while bindings:
            client = await self._consume_connection.wait_connected()
            try:
                await client.unbind(queue, bindings)
            except BrokerConnectionLost:
                continue
            return

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        """Publish all, wait once for all confirms; without one within `timeout` the result is UNKNOWN."""
        return await self._publisher.publish(messages, timeout)

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        """Consume `queue`; return when it does, or has failed to for the first time and retries.

        An exclusive queue must have been declared before.
        """
        exclusive = self._declared.is_exclusive(queue)
        connection = await self._ensure_listening() if exclusive else self._consume_connection
        return await self._subscribe(queue, prefetch, connection)

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        """Consume a low-rate queue one message at a time."""
        subscription = await self._subscribe(queue, _HANDLER_PREFETCH, await self._ensure_listening())
        handler_subscription = HandlerSubscription(subscription, handler, clock=SystemClock(), queue=queue)
        self._handler_subscriptions.append(handler_subscription)
        return handler_subscription

    async def backlog(self, queue: str) -> QueueStats:
        """Count the messages that wait in `queue`. Raises BusUnreachable."""
        try:
            async with asyncio.timeout(_ANSWER_WITHIN):
                client = await self._consume_connection.wait_connected()
                return await client.backlog(queue)
        except (BrokerConnectionLost, RequestRefused, TimeoutError) as error:
            raise BusUnreachable(
                f"expected the broker to say what waits in queue {queue}, got no answer: {error}"
            ) from error

    async def ping(self, *, timeout: float = 5.0) -> None:
        """Send a message by one connection and receive it by the other. Raises BusUnreachable."""
        await self._pinger.ping(timeout)

    async def _subscribe(
        self, queue: str, prefetch: int, connection: ReconnectingConnection
    ) -> RabbitSubscription:
        subscription = RabbitSubscription(queue, prefetch, connection, self._declared)
        self._subscriptions = [*(one for one in self._subscriptions if not one.closed), subscription]
        await subscription.wait_first_attempt()
        return subscription

    async def _declare(
        self, connection: ReconnectingConnection, topology: TopologySpec, queues: Sequence[QueueSpec]
    ) -> None:
        while True:
            client = await connection.wait_connected()
            try:
                await client.declare(topology.exchanges, queues)
            except BrokerConnectionLost:
                continue  # wait_connected returns another connection, or raises after close
            return

    async def _prepare_publishing(self, client: BrokerClient) -> None:
        await self._publisher.prepare(client)
        await self._declared.restore_shared(client)

    async def _ensure_listening(self) -> ReconnectingConnection:
        async with self._listen_starting:
            if not self._listen_started:
                await self._listen_connection.start()
                self._listen_started = True
        return self._listen_connection


def _broker_address(url: str) -> str:
    """Describe the broker at a URL, without credentials and parameters."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or ''}{parts.path}"

"""The Bus port on RabbitMQ."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from warrener_runtime.bus import types
from warrener_runtime.bus.measured import PublishMetrics
from warrener_runtime.bus.namespace import NameMapper
from warrener_runtime.bus.port import BusUnreachable, DeclarationForbidden, Subscription
from warrener_runtime.bus.rabbitmq.channels import BrokerConnectionLost, RequestRefused
from warrener_runtime.bus.rabbitmq.client import RabbitClient, connect_rabbit
from warrener_runtime.bus.rabbitmq.connection import ReconnectingConnection
from warrener_runtime.bus.rabbitmq.consumer import RabbitSubscription
from warrener_runtime.bus.rabbitmq.ping import Pinger
from warrener_runtime.bus.rabbitmq.publisher import RabbitPublisher
from warrener_runtime.bus.rabbitmq.topology import DeclaredTopology, TopologyMender, bind
from warrener_runtime.health import HealthRegistry, NotReady, current_health_registry, describe_refusal
from warrener_runtime.namespace import DEFAULT_NAMESPACE
from warrener_runtime.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from warrener_runtime.keys import MessageSigner

_ANSWER_WITHIN = 5.0  # seconds
_HEALTH = "broker access"  # beside the ping, which is "broker"
_BOUND_WITHIN = 5.0  # seconds

T = TypeVar("T")


class RabbitBus:
    """A bus on up to three connections.

    - One (`connections=1`): for clients, which publish little and receive little.
    - Two: one publishes. A memory alarm stops the broker from reading a connection that has published, and
      acknowledgements on it would wait until the alarm is over.
    - Three: one carries the exclusive queues, so that heartbeats do not share a socket with work. It is
      opened for the first of them.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        namespace: str = DEFAULT_NAMESPACE,
        connect_timeout: float | None = None,
        connections: int = 3,
        metrics: Metrics | None = None,
        signer: "MessageSigner | None" = None,
        declare: types.DeclareMode = "if-missing",
        user_id: str | None = None,
    ) -> None:
        """`user_id`: the user of this connection that all messages name; None: none."""
        self._declared = DeclaredTopology(may_declare=declare != "never")
        self._unchecked: set[str] = set()  # queues that existed, and are bound again when they are consumed
        self._connect_timeout = connect_timeout
        parts = urlsplit(url)  # credentials and parameters are left out
        self._address = broker_address = f"{parts.netloc.rpartition('@')[2]}{parts.path}"

        def connection(role: str, purpose: str, on_connected: Callable[[], None]) -> ReconnectingConnection:
            connect = partial(connect_rabbit, url, f"{name} {role}")
            return ReconnectingConnection(connect, purpose, on_connected, broker_address)

        self._consume_connection = connection("consumes", "consuming", self._on_connected)
        self._publish_connection = self._listen_connection = self._consume_connection
        if connections > 1:
            self._publish_connection = connection("publishes", "publishing", self._on_publishing)
        if connections > 2:
            # Exclusive queues are declared when they are consumed.
            self._listen_connection = connection("listens", "listening", lambda: None)
        self._listen_started = connections < 3
        self._listen_starting = asyncio.Lock()
        self._mender = TopologyMender(self._consume_connection, self._declared)
        self._publisher = RabbitPublisher(
            self._publish_connection, partial(self._note_refusal, "write"), user_id
        )
        self._pinger = Pinger(self._consume_connection, self._publisher, namespace)
        self._subscriptions: list[RabbitSubscription] = []
        self._health_registry: HealthRegistry | None = None
        self._names = NameMapper(namespace)
        self._is_renamed = namespace != DEFAULT_NAMESPACE
        self._publish_metrics, self._signer = PublishMetrics(metrics), signer
        self._closed = False

    async def start(self) -> None:
        """Connect, with retries. Raises BusCredentialsRefused at once, and BusUnreachable after
        `connect_timeout`."""
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._consume_connection.start()
                if self._publish_connection is not self._consume_connection:
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
        self._health_registry = current_health_registry.get()
        if self._health_registry:
            self._health_registry.register(_HEALTH, self._check)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._health_registry:
            self._health_registry.unregister(_HEALTH)
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))
        await self._mender.close()
        connections = {self._publish_connection, self._consume_connection, self._listen_connection}
        await asyncio.gather(*(connection.close() for connection in connections))

    async def declare(self, topology: types.TopologySpec, *, verify: bool = False) -> None:
        """Declare what is missing, now and after a reconnect. Raises TopologyMismatch.

        `verify`: compares what exists, and binds it within 5 s, or beside the work: see TopologyMender.
        """
        topology = self._names.topology(topology)
        declare = partial(self._declared.declare_shared, topology=topology)
        existing = await self._persist(self._consume_connection, declare)
        if verify:
            compare = partial(self._declared.verify, topology=topology)
            verify = await self._persist(self._consume_connection, compare)
        self._declared.keep(topology)
        self._unchecked.update(existing)
        if exclusive := [queue for queue in topology.queues if queue.exclusive]:
            connection = await self._ensure_listening()
            await self._persist(connection, partial(self._declared.declare_exclusive, queues=exclusive))
        for queue in existing if verify else ():
            self._mender.check_bindings(queue)
        if existing and verify:
            await self._mender.wait_done(_BOUND_WITHIN)

    async def claim(self, exchange: types.ExchangeSpec) -> None:
        named = types.NamedTopology((self._names.exchange(exchange),), ())
        await self._persist(self._consume_connection, partial(self._declared.claim, topology=named))
        self._declared.keep(named)

    async def bind(self, queue: types.QueueSpec) -> list[types.BindingSpec]:
        named = partial(bind, queue=self._names.queue(queue))
        missing = set(await self._persist(self._consume_connection, named))
        return [binding for binding in queue.bindings if self._names.binding(binding) in missing]

    async def unbind(self, queue: str, bindings: Sequence[types.BindingSpec]) -> None:
        if bindings:
            name, named = self._names.to_broker(queue), [self._names.binding(one) for one in bindings]
            await self._persist(self._consume_connection, lambda client: client.unbind(name, named))

    async def publish(
        self, messages: Sequence[types.OutgoingMessage], *, timeout: float = 10.0
    ) -> list[types.PublishResult]:
        if self._signer is not None:
            messages = self._signer.sign(messages)
        named = [self._names.message(one) for one in messages] if self._is_renamed else messages
        return await self._publish_metrics.measure(messages, self._publisher.publish(named, timeout))

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        """Consume `queue`; return when it does, or has failed to for the first time and retries.

        An exclusive queue must have been declared before.
        """
        name = self._names.to_broker(queue)
        is_exclusive = self._declared.is_exclusive(name)
        subscription = RabbitSubscription(
            name,
            prefetch,
            await self._ensure_listening() if is_exclusive else self._consume_connection,
            self._declared,
            self._mender.check_bindings,
            on_refused=partial(self._note_refusal, "read"),
            convert=self._names.delivery if self._is_renamed else None,
        )
        self._subscriptions = [*(one for one in self._subscriptions if not one.closed), subscription]
        await subscription.wait_first_attempt()
        if name in self._unchecked:  # an earlier version may have declared it
            self._unchecked.discard(name)
            self._mender.check_bindings(name)
        return subscription

    async def backlog(self, queue: str) -> types.QueueStats:
        queue = self._names.to_broker(queue)
        try:
            async with asyncio.timeout(_ANSWER_WITHIN):
                client = await self._consume_connection.wait_connected()
                return await client.backlog(self._declared.broker_name(queue))
        except (BrokerConnectionLost, RequestRefused, TimeoutError) as error:
            # RabbitMQ 4.3 speaks of `configure`, and lets those look who may do anything with the queue.
            self._note_refusal("write", str(error).replace(" configure access to ", " write access to "))
            raise BusUnreachable(
                f"expected the broker to say what waits in queue {queue}, got no answer: {error}"
            ) from error

    async def ping(self, *, timeout: float = 5.0) -> None:
        """Send a message by one connection and receive it by the other. Raises BusUnreachable."""
        await self._pinger.ping(timeout)

    async def _persist(
        self, connection: ReconnectingConnection, call: Callable[[RabbitClient], Awaitable[T]]
    ) -> T:
        """Call until the connection lasts for it. Raises BrokerConnectionLost after `close`."""
        while True:
            client = await connection.wait_connected()
            try:
                return await call(client)
            except BrokerConnectionLost:
                continue  # wait_connected returns another connection, or raises after close
            except DeclarationForbidden as error:
                _, text = describe_refusal(error.rights, str(error), self._names) or ("", str(error))
                raise DeclarationForbidden(text, error.rights) from error

    def _note_refusal(self, verb: str, reason: str) -> None:
        if self._health_registry:
            self._health_registry.refusals.note(verb, reason, self._names)

    async def _check(self) -> None:
        """Raise NotReady while the broker takes no messages, no connection, or no piece of the topology."""
        await self._publisher.check()
        if error := self._consume_connection.last_error or self._publish_connection.last_error:
            raise NotReady(f"no connection to the broker: {error}")
        if self._health_registry and (refused := self._health_registry.refusals.current()):
            raise NotReady("; ".join(refused.values()))

    def _on_publishing(self) -> None:
        self._publisher.on_connected()

    def _on_connected(self) -> None:
        self._publisher.on_connected()
        self._mender.look()

    async def _ensure_listening(self) -> ReconnectingConnection:
        async with self._listen_starting:
            if not self._listen_started:
                await self._listen_connection.start()
                self._listen_started = True
        return self._listen_connection

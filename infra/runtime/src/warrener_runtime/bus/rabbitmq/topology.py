"""Declaring exchanges and queues, and those that are missing again, beside the work."""

import asyncio
import contextlib
from collections.abc import Iterable
from uuid import uuid4

from warrener_runtime.bus.port import DeclarationForbidden, TopologyMismatch
from warrener_runtime.bus.rabbitmq.channels import BrokerConnectionLost
from warrener_runtime.bus.rabbitmq.client import RabbitClient
from warrener_runtime.bus.rabbitmq.connection import ReconnectingConnection
from warrener_runtime.bus.subscriptions import cancel_and_wait
from warrener_runtime.bus.types import (
    BindingSpec,
    ExchangeSpec,
    NamedQueue,
    NamedTopology,
    QueueSpec,
    TopologySpec,
)
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)


class DeclaredTopology:
    """The exchanges and queues that a bus keeps declared.

    An exclusive queue belongs to a connection. The next connection declares it under a fresh name, because
    the broker may hold the old one for a minute: a frozen node of a cluster, a connection cut on our side.
    """

    def __init__(self, *, may_declare: bool = True) -> None:
        """`may_declare`: False for a bus that makes exclusive queues alone."""
        self._may_declare = self._may_verify = may_declare
        self._exchanges: dict[str, ExchangeSpec] = {}
        self._queues: dict[str, QueueSpec] = {}
        self._owned: dict[str, tuple[RabbitClient, str]] = {}  # exclusive queues: connection, broker's name
        self._unbindable: set[str] = set()
        self._naming = asyncio.Lock()

    def keep(self, topology: TopologySpec) -> None:
        self._exchanges.update((exchange.name, exchange) for exchange in topology.exchanges)
        self._queues.update((queue.name, queue) for queue in topology.queues)

    def is_exclusive(self, queue: str) -> bool:
        """True if the queue belongs to the connection that declared it."""
        known = self._queues.get(queue)
        return known is not None and known.exclusive

    def broker_name(self, queue: str) -> str:
        """The name under which the queue was last declared."""
        return self._owned[queue][1] if queue in self._owned else queue

    async def declare_shared(self, client: RabbitClient, topology: TopologySpec) -> list[str]:
        """Look for exchanges and shared queues, and declare the missing ones; return the names of the queues
        that existed. Raises TopologyMismatch, BrokerConnectionLost.

        To look waits for no other node of a cluster, and needs no permission before RabbitMQ 4.3.
        """
        queues = [queue for queue in topology.queues if not queue.exclusive]
        if not queues and not topology.exchanges:
            return []
        missing = await client.missing(
            [exchange.name for exchange in topology.exchanges], [queue.name for queue in queues]
        )
        names = [f"exchange {name}" for name in sorted(missing.exchanges)]
        names += [f"queue {name}" for name in sorted(missing.queues)]
        if names and not self._may_declare:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise DeclarationForbidden(
                f"expected {names[0]} on the broker, got none{more}, and WARRENER_DECLARE=never;"
                " run `warrener topology apply` as a user who may declare it"
            )
        await client.declare(
            [exchange for exchange in topology.exchanges if exchange.name in missing.exchanges],
            [queue for queue in queues if missing.concerns(queue)],
        )
        return [queue.name for queue in queues if not missing.concerns(queue)]

    async def claim(self, client: RabbitClient, topology: TopologySpec) -> None:
        """Declare what must have these properties. A bus that may not declare compares as far as it may.
        Raises TopologyMismatch, BrokerConnectionLost."""
        await self.declare_shared(client, topology)
        try:
            await client.declare(topology.exchanges, ())
        except DeclarationForbidden as error:
            if self._may_declare:
                raise
            _log.warning(
                "An exchange was not compared, as this user may not declare it: the namespace of another"
                " installation would not be noticed.",
                action="bus.not_compared",
                reason=str(error),
            )

    async def verify(self, client: RabbitClient, topology: TopologySpec) -> bool:
        """Declare what exists again, which compares it; False if this user may not, which is tried once.
        Raises TopologyMismatch, BrokerConnectionLost."""
        if self._may_verify:
            shared = [_without_bindings(queue) for queue in topology.queues if not queue.exclusive]
            try:
                await client.declare(topology.exchanges, shared)
            except DeclarationForbidden as error:
                self._may_verify = False
                _log.info(
                    "Existing exchanges and queues are not compared: this user may not declare them.",
                    action="bus.not_compared",
                    reason=str(error),
                )
        return self._may_verify

    async def declare_exclusive(self, client: RabbitClient, queues: Iterable[QueueSpec]) -> None:
        """Declare exclusive queues on this connection. Raises TopologyMismatch, BrokerConnectionLost."""
        for queue in queues:
            # After a reconnect both the consumer and its owner may declare: two names would be two queues, of
            # which one is bound, and consumed by nobody.
            async with self._naming:
                owner, name = self._owned.get(queue.name, (client, queue.name))
                if owner is not client:
                    name = f"{queue.name}.{uuid4().hex[:8]}"
                declared = NamedQueue(name, queue.bindings, queue.arguments, exclusive=True)
                await client.declare((), [declared])
                self._owned[queue.name] = client, name

    async def ensure_queue(self, client: RabbitClient, name: str, *, look: bool) -> None:
        """Declare a queue that does not exist, with its exchanges and bindings, before it is consumed.

        `look`: the queue may be missing. Raises TopologyMismatch."""
        queue = self._queues.get(name)
        if queue is None:
            return
        is_owned = not queue.exclusive or (name in self._owned and self._owned[name][0] is client)
        if is_owned and not (look and (await client.missing((), [self.broker_name(name)])).queues):
            return
        exchanges = [
            self._exchanges[exchange]
            for exchange in dict.fromkeys(binding.exchange for binding in queue.bindings)
            if exchange in self._exchanges
        ]
        await self.declare_shared(client, NamedTopology(exchanges, [queue]))
        if queue.exclusive:
            await self.declare_exclusive(client, [queue])

    async def declare_missing(self, client: RabbitClient) -> None:
        """Declare shared queues and exchanges that do not exist, and bind the queues that were bound to them.
        One that fails does not prevent the others."""
        if not self._may_declare:
            return
        shared = [queue for queue in self._queues.values() if not queue.exclusive]
        missing = await client.missing(self._exchanges, [queue.name for queue in shared])
        for exchange in self._exchanges.values():
            if exchange.name in missing.exchanges:
                await _declare_or_log(client, [exchange], [])
        for queue in shared:
            if missing.concerns(queue):
                await _declare_or_log(client, [], [queue])

    async def bind_again(self, client: RabbitClient, name: str) -> None:
        """Bind a shared queue again. A user who may not has nothing to mend."""
        queue = self._queues.get(name)
        if queue is None or queue.exclusive or not self._may_declare or name in self._unbindable:
            return
        try:
            await client.bind(queue)
        except DeclarationForbidden as error:
            self._unbindable.add(name)
            _log.info(
                "The bindings of a queue were not checked: this user may not bind it.",
                action="bus.not_bound",
                queue=name,
                reason=str(error),
            )
        except TopologyMismatch as error:
            _log_refused(error)


class TopologyMender:
    """Declares and binds beside the work, one queue at a time, however long the broker takes.

    RabbitMQ 3.10 writes a declaration to all nodes of a cluster at once, even that of a binding that exists:
    while one node is frozen it waits for `net_ticktime`. To look, to publish and to consume do not wait.
    """

    def __init__(self, connection: ReconnectingConnection, declared: DeclaredTopology) -> None:
        self._connection = connection
        self._declared = declared
        self._look_due = False
        self._unbound: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Declare what is missing, as after a reconnect; what exists is not bound again."""
        self._look_due = True
        self._wake()

    def check_bindings(self, queue: str) -> None:
        """Bind a queue again. Nothing in AMQP says if a binding exists, and a consumer that receives nothing
        cannot distinguish a missing one from a quiet hour."""
        self._unbound[queue] = None
        self._wake()

    async def wait_done(self, timeout: float) -> None:
        """Wait until all is declared and bound, or for `timeout` seconds."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout)

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mend the topology")

    async def _run(self) -> None:
        while self._look_due or self._unbound:
            try:
                client = await self._connection.wait_connected()
            except BrokerConnectionLost:
                return  # closed for good
            # The next connection looks again, and an idle consumer has its bindings checked again.
            with contextlib.suppress(BrokerConnectionLost):
                if self._look_due:
                    self._look_due = False
                    await self._declared.declare_missing(client)
                elif queue := next(iter(self._unbound), None):
                    del self._unbound[queue]
                    await self._declared.bind_again(client, queue)


async def bind(client: RabbitClient, queue: NamedQueue) -> list[BindingSpec]:
    """Bind a queue, which is declared if it is missing; return the bindings whose exchange is missing. Raises
    TopologyMismatch, BrokerConnectionLost."""
    missing = await client.missing({binding.exchange for binding in queue.bindings}, [queue.name])
    if missing.queues:
        await client.declare((), [_without_bindings(queue)])
    await client.bind(
        queue._replace(
            bindings=[binding for binding in queue.bindings if binding.exchange not in missing.exchanges]
        )
    )
    return [binding for binding in queue.bindings if binding.exchange in missing.exchanges]


def _without_bindings(queue: QueueSpec) -> NamedQueue:
    return NamedQueue(queue.name, (), queue.arguments, queue.exclusive)


async def _declare_or_log(
    client: RabbitClient, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    try:
        await client.declare(exchanges, queues)
    except TopologyMismatch as error:
        _log_refused(error)


def _log_refused(error: TopologyMismatch) -> None:
    _log.error(
        "A part of the topology could not be declared again. " + str(error), action="bus.topology_mismatch"
    )

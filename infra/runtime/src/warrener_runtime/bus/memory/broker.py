"""The memory broker: routing, queues, dead letters and delay queues, with faults on request."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from warrener_runtime.bus import types
from warrener_runtime.bus.memory.queue import MemoryQueue, QueueConsumer, StoredMessage, to_stored_message
from warrener_runtime.bus.port import TopologyMismatch
from warrener_runtime.clock import Clock, SystemClock

_KINDS = frozenset({"topic", "fanout", "direct"})


@dataclass(slots=True)
class _Exchange:
    kind: str
    alternate: str | None
    bindings: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])  # queue, key

    def queues_for(self, key: str) -> list[str]:
        """List the queues bound for `key`, each once."""
        return list(dict.fromkeys(queue for queue, pattern in self.bindings if self._routes(pattern, key)))

    def _routes(self, pattern: str, key: str) -> bool:
        if self.kind == "topic":
            return types.matches(pattern, key)
        return self.kind == "fanout" or pattern == key


class MemoryClient(Protocol):
    """A client, as the broker sees it."""

    def on_connected(self) -> None:
        """The broker has accepted the connection."""

    def on_disconnected(self) -> None:
        """The broker has dropped the connection: unacknowledged messages go back."""

    def on_queues_changed(self) -> None:
        """A queue was declared: consumers without one may retry."""


class MemoryBroker:
    """A broker for one process, true to what Warrener relies on in RabbitMQ.

    Topic, fanout and direct exchanges with alternates; limits that refuse publishers; time-to-live with
    dead-lettering (the delay queues), driven by `clock` alone; delivery limits; exclusive queues. Messages in
    quorum queues and persistent messages survive `restart()`.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._exchanges: dict[str, _Exchange] = {}
        self._queues: dict[str, MemoryQueue] = {}
        self._connections: list[MemoryClient] = []
        self._expiring: dict[str, asyncio.Task[None]] = {}
        self._lost_confirms = 0
        self._duplicates = 0
        self._without_quorum: set[str] = set()
        self.running = asyncio.Event()
        self.running.set()

    # -- connections ---------------------------------------------------------------------------------------

    def connect(self, connection: MemoryClient) -> None:
        """Accept a client, at once or when the broker runs again."""
        self._connections.append(connection)
        if self.running.is_set():
            connection.on_connected()

    def disconnect(self, connection: MemoryClient) -> None:
        """Remove a client: its unacknowledged messages go back, its exclusive queues are deleted."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._drop(connection)

    def _drop(self, connection: MemoryClient) -> None:
        connection.on_disconnected()
        for queue in [queue for queue in self._queues.values() if queue.owner is connection]:
            self.delete_queue(queue.name)

    # -- topology ------------------------------------------------------------------------------------------

    def declare(self, topology: types.TopologySpec, owner: MemoryClient) -> None:
        """Make these exist; exclusive queues belong to `owner`. Raises TopologyMismatch."""
        for exchange in topology.exchanges:
            self._declare_exchange(exchange)
        for queue in topology.queues:
            self._declare_queue(queue, owner)
        self._retry_dead_letters()
        for connection in self._connections:
            connection.on_queues_changed()

    def missing(self, topology: types.TopologySpec) -> types.NamedTopology:
        """Return the exchanges and queues that do not exist, and the queues that are exclusive, or bound to
        such an exchange."""
        exchanges = [one for one in topology.exchanges if one.name not in self._exchanges]
        absent = {one.name for one in exchanges}
        queues = [
            one
            for one in topology.queues
            if one.exclusive
            or one.name not in self._queues
            or any(binding.exchange in absent for binding in one.bindings)
        ]
        return types.NamedTopology(exchanges, queues)

    def _declare_exchange(self, spec: types.ExchangeSpec) -> None:
        if spec.kind not in _KINDS:
            raise TopologyMismatch(
                f"expected an exchange kind of {sorted(_KINDS)}, got {spec.kind!r} for {spec.name!r}; use one"
            )
        known = self._exchanges.setdefault(spec.name, _Exchange(spec.kind, spec.alternate))
        if (known.kind, known.alternate) != (spec.kind, spec.alternate):
            raise TopologyMismatch(
                f"expected exchange {spec.name!r} as {spec.kind} with alternate {spec.alternate!r},"
                f" got {known.kind} with alternate {known.alternate!r}; delete it, or declare it as it is"
            )

    def _declare_queue(self, spec: types.QueueSpec, owner: MemoryClient) -> None:
        known = self._queues.get(spec.name)
        wanted = owner if spec.exclusive else None
        if known is None:
            self._queues[spec.name] = MemoryQueue(spec.name, spec.arguments, wanted)
        elif known.owner is not wanted or _without_limit(known.arguments) != _without_limit(spec.arguments):
            raise TopologyMismatch(
                f"expected queue {spec.name!r} with {dict(spec.arguments)}, got one with {known.arguments}"
                " or of another connection; delete it, or choose another name"
            )
        if missing := self._bind(spec):
            raise TopologyMismatch(
                f"expected exchange {missing[0].exchange!r} to bind queue {spec.name!r} to, got none;"
                " declare it first"
            )

    def bind(self, queue: types.QueueSpec) -> list[types.BindingSpec]:
        """Declare and bind a queue; return the bindings whose exchange is missing."""
        if queue.name not in self._queues:
            self._queues[queue.name] = MemoryQueue(queue.name, queue.arguments, None)
        return self._bind(queue)

    def _bind(self, queue: types.QueueSpec) -> list[types.BindingSpec]:
        for binding in queue.bindings:
            if binding.exchange in self._exchanges:
                self._exchanges[binding.exchange].bindings[queue.name, binding.key] = None
        return [binding for binding in queue.bindings if binding.exchange not in self._exchanges]

    def unbind(self, queue: str, bindings: Sequence[types.BindingSpec]) -> None:
        for binding in bindings:
            if binding.exchange in self._exchanges:
                self._exchanges[binding.exchange].bindings.pop((queue, binding.key), None)

    # -- publishing ----------------------------------------------------------------------------------------

    def publish(self, outgoing: types.OutgoingMessage, user_id: str | None = None) -> types.PublishResult:
        """Route one message of this user and return its result."""
        message = to_stored_message(outgoing, user_id)
        result = self._route(message, mandatory=outgoing.mandatory)
        if self._duplicates and result is types.PublishResult.CONFIRMED:
            self._duplicates -= 1
            self._route(message, mandatory=False)
        if self._lost_confirms:
            self._lost_confirms -= 1
            return types.PublishResult.UNKNOWN
        return result

    def _route(self, message: StoredMessage, *, mandatory: bool) -> types.PublishResult:
        if message.exchange and message.exchange not in self._exchanges:
            return types.PublishResult.UNROUTABLE
        names = self._queues_for(message.exchange, message.routing_key)
        queues = [self._queues[name] for name in names if name in self._queues]
        if not queues:
            return types.PublishResult.UNROUTABLE if mandatory else types.PublishResult.CONFIRMED
        if any(queue.name in self._without_quorum for queue in queues):
            return types.PublishResult.UNKNOWN
        stored = [self._store(queue, message) for queue in queues]
        return types.PublishResult.CONFIRMED if all(stored) else types.PublishResult.REFUSED

    def _queues_for(self, exchange: str, key: str) -> list[str]:
        """Name the queues for a key: those bound for it, else those of the alternate exchange. The nameless
        exchange routes by queue name."""
        if not exchange:
            return [key]
        known = self._exchanges.get(exchange)
        if known is None:
            return []
        found = known.queues_for(key)
        return found if found or known.alternate is None else self._queues_for(known.alternate, key)

    def _store(self, queue: MemoryQueue, message: StoredMessage) -> bool:
        if queue.full:
            return False
        dropped = queue.add(message, self.clock.monotonic())
        for old in dropped:
            self._dead_letter(queue, old, "maxlen")
        queue.deliver_ready()
        self._expire_later(queue)
        return True

    # -- consuming -----------------------------------------------------------------------------------------

    def consume(self, queue: str, consumer: QueueConsumer, connection: MemoryClient) -> bool:
        """Add a consumer to `queue`; False if there is none, or another connection owns it."""
        found = self._queues.get(queue)
        if found is None or (found.owner is not None and found.owner is not connection):
            return False
        found.consumers.append(consumer)
        found.deliver_ready()
        return True

    def cancel_consumers(self, queue: str) -> None:
        """Cancel every consumer of `queue`, as when a queue moves in a cluster."""
        found = self._queues[queue]
        cancelled, found.consumers = found.consumers, []
        for consumer in cancelled:
            consumer.on_cancelled()

    def cancel(self, queue: str, consumer: QueueConsumer) -> None:
        found = self._queues.get(queue)
        if found is not None and consumer in found.consumers:
            found.consumers.remove(consumer)

    def resume_delivery(self, queue: str) -> None:
        """Deliver to a consumer that has capacity again."""
        if (found := self._queues.get(queue)) is not None:
            found.deliver_ready()
        self._retry_dead_letters()

    def requeue(self, queue: str, messages: Sequence[StoredMessage]) -> None:
        """Return messages to their places, or dead-letter them beyond the delivery limit."""
        if (found := self._queues.get(queue)) is None:
            return
        for message in messages:
            if not found.requeue(message):
                self._dead_letter(found, message, "delivery_limit")
        found.deliver_ready()
        self._expire_later(found)

    def dead_letter(self, queue: str, messages: Sequence[StoredMessage]) -> None:
        if (found := self._queues.get(queue)) is not None:
            for message in messages:
                self._dead_letter(found, message, "rejected")

    # -- dead letters and time -----------------------------------------------------------------------------

    def _expire_later(self, queue: MemoryQueue) -> None:
        """Expire the messages of a queue that has some, by a task that waits by the clock."""
        if queue.name not in self._expiring and queue.next_expiry() is not None:
            self._expiring[queue.name] = asyncio.get_running_loop().create_task(self._expire(queue))

    async def _expire(self, queue: MemoryQueue) -> None:
        while (due := queue.next_expiry()) is not None:
            await self.clock.sleep(max(0.0, due - self.clock.monotonic()))
            for message in queue.take_expired(self.clock.monotonic()):
                self._dead_letter(queue, message, "expired")
        del self._expiring[queue.name]

    def _dead_letter(self, queue: MemoryQueue, message: StoredMessage, reason: str) -> None:
        sent = queue.dead_letter(message, reason, self.clock.now())
        if sent is None or self._route(sent, mandatory=True) is types.PublishResult.CONFIRMED:
            return
        if queue.dead_letters_at_least_once:
            queue.undelivered_dead_letters.append(sent)

    def _retry_dead_letters(self) -> None:
        """Retry dead letters that found no queue or a full one, as at-least-once dead-lettering does."""
        for queue in list(self._queues.values()):
            for _ in range(len(queue.undelivered_dead_letters)):
                message = queue.undelivered_dead_letters.popleft()
                if self._route(message, mandatory=True) is not types.PublishResult.CONFIRMED:
                    queue.undelivered_dead_letters.append(message)

    # -- for tests -----------------------------------------------------------------------------------------

    def backlog(self, queue: str) -> types.QueueStats:
        found = self._queues.get(queue)
        return (
            types.QueueStats(len(found), len(found.consumers))
            if found is not None
            else types.QueueStats(0, 0)
        )

    def ready(self, queue: str) -> int:
        """Count the messages that wait in `queue`; 0 if there is no such queue."""
        return len(self._queues[queue]) if queue in self._queues else 0

    def peek(self, queue: str) -> list[StoredMessage]:
        """List the messages that wait in `queue`, oldest first."""
        return self._queues[queue].peek() if queue in self._queues else []

    def has_queue(self, queue: str) -> bool:
        return queue in self._queues

    def queue_names(self) -> list[str]:
        return list(self._queues)

    # -- faults on request ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the broker, as by kill -9: connections break, publishers get no confirm, time goes on."""
        if not self.running.is_set():
            return
        self.running.clear()
        for task in self._expiring.values():
            task.cancel()
        self._expiring.clear()
        for connection in list(self._connections):
            self._drop(connection)
        for queue in self._queues.values():
            queue.purge(transient_only=True)

    def start(self) -> None:
        """Start the broker again, with its persistent messages; clients reconnect."""
        if self.running.is_set():
            return
        self.running.set()
        for queue in self._queues.values():
            self._expire_later(queue)
        for connection in list(self._connections):
            connection.on_connected()

    def restart(self) -> None:
        self.stop()
        self.start()

    def drop_connections(self) -> None:
        """Break every connection; all come back at once, and unacknowledged messages are redelivered."""
        for connection in list(self._connections):
            self._drop(connection)
        for connection in list(self._connections):
            if self.running.is_set():
                connection.on_connected()

    def lose_confirms(self, count: int) -> None:
        """Store the next `count` messages without a confirm (PublishResult.UNKNOWN)."""
        self._lost_confirms += count

    def duplicate(self, count: int) -> None:
        """Deliver the next `count` routed messages twice."""
        self._duplicates += count

    def lose_quorum(self, queue: str, *, lost: bool = True) -> None:
        """Let a queue store and confirm nothing, as one without a quorum."""
        (self._without_quorum.add if lost else self._without_quorum.discard)(queue)

    def mute(self, queue: str, *, muted: bool = True) -> None:
        """Stall the consumers of a queue: connected, and without deliveries (guarantee G8)."""
        self._queues[queue].muted = muted
        self._queues[queue].deliver_ready()

    def delete_queue(self, queue: str) -> None:
        """Delete a queue with its messages; its consumers are cancelled."""
        found = self._queues.pop(queue, None)
        if found is None:
            return
        for exchange in self._exchanges.values():
            for binding in [one for one in exchange.bindings if one[0] == queue]:
                del exchange.bindings[binding]
        if (expiring := self._expiring.pop(queue, None)) is not None:
            expiring.cancel()
        for consumer in found.consumers:
            consumer.on_cancelled()

    def delete_exchange(self, exchange: str) -> None:
        self._exchanges.pop(exchange, None)

    def purge(self, queue: str) -> None:
        self._queues[queue].purge()


def _without_limit(arguments: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return the arguments in which an existing queue may not differ."""
    return {key: value for key, value in arguments.items() if key != "x-delivery-limit"}

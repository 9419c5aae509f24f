"""Namespaces: several systems on one virtual host of a broker.

All code says `warrener.requests`. On the broker each name has the namespace as its first word, and here one
is turned into the other. Names that do not begin with `warrener.` belong to others and stay as they are.
"""

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from warrener_runtime.bus.port import Bus, Handler, Subscription
from warrener_runtime.bus.types import (
    BindingSpec,
    Delivery,
    ExchangeSpec,
    OutgoingMessage,
    PublishResult,
    QueueSpec,
    QueueStats,
    TopologySpec,
)

DEFAULT_NAMESPACE = "warrener"
_SHAPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
_NAMES_IN_DEATHS = ("queue", "exchange")
_NAMES_IN_HEADERS = (
    "x-first-death-queue",
    "x-first-death-exchange",
    "x-last-death-queue",
    "x-last-death-exchange",
)


def validate_namespace(namespace: str) -> str:
    """The namespace. Raises ValueError where it cannot be one."""
    if not _SHAPE.fullmatch(namespace):
        raise ValueError("1 to 40 of a-z, 0-9, _ and -, a letter or digit first, such as `shop-2`")
    return namespace


class NameMapper:
    """Turns our names into those on the broker and back."""

    def __init__(self, namespace: str) -> None:
        self._ours = f"{DEFAULT_NAMESPACE}."
        self._theirs = f"{validate_namespace(namespace)}."

    def to_broker(self, name: str) -> str:
        """The name that the broker knows."""
        return self._theirs + name.removeprefix(self._ours) if name.startswith(self._ours) else name

    def is_ours(self, name: str) -> bool:
        """True if this name on the broker belongs to the namespace."""
        return name.startswith(self._theirs)

    def from_broker(self, name: str) -> str:
        """The name that code knows, of one on the broker."""
        return self._ours + name.removeprefix(self._theirs) if self.is_ours(name) else name

    def arguments(self, arguments: Mapping[str, str | int]) -> dict[str, str | int]:
        """The arguments of a queue on the broker."""
        return {
            key: self.to_broker(value) if key == _DEAD_LETTER_EXCHANGE and isinstance(value, str) else value
            for key, value in arguments.items()
        }

    def exchange(self, spec: ExchangeSpec) -> "NamedExchange":
        """An exchange on the broker."""
        alternate = None if spec.alternate is None else self.to_broker(spec.alternate)
        return NamedExchange(self.to_broker(spec.name), spec.kind, alternate)

    def queue(self, spec: QueueSpec) -> "NamedQueue":
        """A queue on the broker."""
        bindings = tuple(self.binding(binding) for binding in spec.bindings)
        return NamedQueue(
            self.to_broker(spec.name), bindings, self.arguments(spec.arguments), exclusive=spec.exclusive
        )

    def binding(self, spec: BindingSpec) -> "NamedBinding":
        """A binding on the broker."""
        return NamedBinding(self.to_broker(spec.exchange), spec.key)

    def topology(self, spec: TopologySpec) -> "NamedTopology":
        """A topology on the broker."""
        return NamedTopology(
            tuple(self.exchange(exchange) for exchange in spec.exchanges),
            tuple(self.queue(queue) for queue in spec.queues),
        )

    def message(self, message: OutgoingMessage) -> "NamedMessage":
        """A message as it is published. Through the nameless exchange the key is the name of a queue."""
        exchange, key = message.exchange, message.routing_key
        return NamedMessage(
            self.to_broker(exchange),
            key if exchange else self.to_broker(key),
            message.body,
            message.content_type,
            message.message_id,
            message.type,
            message.headers,
            persistent=message.persistent,
            mandatory=message.mandatory,
        )

    def delivery(self, delivery: Delivery) -> Delivery:
        """A message as code receives it."""
        headers = delivery.headers
        return delivery._replace(
            exchange=self.from_broker(delivery.exchange),
            headers=self._headers(headers) if "x-death" in headers else headers,
        )

    def _headers(self, headers: Mapping[str, object]) -> Mapping[str, object]:
        known = {key: self._mapped(headers[key]) for key in _NAMES_IN_HEADERS if key in headers}
        deaths = headers["x-death"]
        mapped = [self._death(death) for death in deaths] if isinstance(deaths, list) else deaths  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return {**headers, **known, "x-death": mapped}

    def _death(self, death: object) -> object:
        if not isinstance(death, dict):
            return death
        record = cast("dict[str, Any]", death)
        return record | {key: self._mapped(record[key]) for key in _NAMES_IN_DEATHS if key in record}

    def _mapped(self, name: object) -> object:
        return self.from_broker(name) if isinstance(name, str) else name


@dataclass(frozen=True, slots=True)
class NamedExchange:
    """An exchange by its name on the broker."""

    name: str
    kind: str
    alternate: str | None


@dataclass(frozen=True, slots=True)
class NamedBinding:
    """A binding by the name of its exchange on the broker."""

    exchange: str
    key: str


@dataclass(frozen=True, slots=True)
class NamedQueue:
    """A queue by its name on the broker."""

    name: str
    bindings: Sequence[BindingSpec]
    arguments: Mapping[str, str | int]
    exclusive: bool


@dataclass(frozen=True, slots=True)
class NamedTopology:
    """Exchanges and queues by their names on the broker."""

    exchanges: Sequence[ExchangeSpec]
    queues: Sequence[QueueSpec]


class NamedMessage(NamedTuple):
    """A message with the name of its exchange on the broker."""

    exchange: str
    routing_key: str
    body: bytes
    content_type: str
    message_id: str
    type: str
    headers: Mapping[str, str]
    persistent: bool
    mandatory: bool


class NamespacedBus:
    """A bus whose names have another first word on the broker. Whatever it does the inner one does."""

    def __init__(self, inner: Bus, namespace: str) -> None:
        self._inner = inner
        self._names = NameMapper(namespace)

    async def start(self) -> None:
        """Connect."""
        await self._inner.start()

    async def close(self) -> None:
        """Disconnect."""
        await self._inner.close()

    async def declare(self, topology: TopologySpec) -> None:
        """Make these exist, now and after each reconnect."""
        await self._inner.declare(self._names.topology(topology))

    async def bind(self, queue: QueueSpec) -> list[BindingSpec]:
        """Make the queue exist, and bound as it says; those bindings whose exchange is missing."""
        missing = set(await self._inner.bind(self._names.queue(queue)))
        return [binding for binding in queue.bindings if self._names.binding(binding) in missing]

    async def unbind(self, queue: str, bindings: Sequence[BindingSpec]) -> None:
        """Undo these where they are there."""
        await self._inner.unbind(self._names.to_broker(queue), [self._names.binding(one) for one in bindings])

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        """Publish all, wait once for all confirms."""
        return await self._inner.publish([self._names.message(one) for one in messages], timeout=timeout)

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        """Consume `queue`."""
        found = await self._inner.subscribe(self._names.to_broker(queue), prefetch=prefetch)
        return _NamespacedSubscription(found, self._names)

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        """Consume a low-rate queue one message at a time."""

        async def handle(delivery: Delivery) -> None:
            await handler(self._names.delivery(delivery))

        return await self._inner.listen(self._names.to_broker(queue), handle)

    async def backlog(self, queue: str) -> QueueStats:
        """What waits in `queue` now."""
        return await self._inner.backlog(self._names.to_broker(queue))

    async def ping(self, *, timeout: float = 5.0) -> None:
        """A confirmed loop-back."""
        await self._inner.ping(timeout=timeout)


class _NamespacedSubscription:
    """Deliveries with the names that code knows."""

    def __init__(self, inner: Subscription, names: NameMapper) -> None:
        self._inner = inner
        self._names = names

    @property
    def live(self) -> bool:
        """That of the inner one."""
        return self._inner.live

    @property
    def epoch(self) -> int:
        """That of the inner one."""
        return self._inner.epoch

    @property
    def received_count(self) -> int:
        """That of the inner one."""
        return self._inner.received_count

    @property
    def has_capacity(self) -> bool:
        """That of the inner one."""
        return self._inner.has_capacity

    @property
    def nothing_unacked(self) -> bool:
        """That of the inner one."""
        return self._inner.nothing_unacked

    def resubscribe(self) -> None:
        """Give up the channel, and consume by another one."""
        self._inner.resubscribe()

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self

    async def __anext__(self) -> list[Delivery]:
        """The next batch."""
        return [self._names.delivery(one) for one in await anext(aiter(self._inner))]

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        """Tell the broker that these are done."""
        await self._inner.ack(deliveries)

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        """Give them back, or dead-letter them."""
        await self._inner.reject(deliveries, requeue=requeue)

    async def stop(self) -> None:
        """Receive no more."""
        await self._inner.stop()

    async def close(self) -> None:
        """Receive no more, and give back at once what is not acknowledged."""
        await self._inner.close()

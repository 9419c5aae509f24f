"""Namespaces: several systems on one virtual host of a broker.

Code uses names such as `warrener.requests`. On the broker the namespace is the first part of each name, and
this module converts between the two. Names that do not begin with `warrener.` belong to others and stay as
they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from warrener_runtime.bus.port import Bus, Handler, Subscription
from warrener_runtime.bus.types import (
    BindingSpec,
    Delivery,
    ExchangeSpec,
    NamedBinding,
    NamedExchange,
    NamedMessage,
    NamedQueue,
    NamedTopology,
    OutgoingMessage,
    PublishResult,
    QueueSpec,
    QueueStats,
    TopologySpec,
)
from warrener_runtime.bus.wrapped import WrappedBus, WrappedSubscription
from warrener_runtime.namespace import DEFAULT_NAMESPACE, validate_namespace

_DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
_NAMES_IN_DEATHS = ("queue", "exchange")
_NAMES_IN_HEADERS = (
    "x-first-death-queue",
    "x-first-death-exchange",
    "x-last-death-queue",
    "x-last-death-exchange",
)


class NameMapper:
    """Converts our names to those on the broker and back."""

    def __init__(self, namespace: str) -> None:
        self._ours = f"{DEFAULT_NAMESPACE}."
        self._theirs = f"{validate_namespace(namespace)}."

    def to_broker(self, name: str) -> str:
        """Convert a name of ours."""
        return self._theirs + name.removeprefix(self._ours) if name.startswith(self._ours) else name

    def is_ours(self, name: str) -> bool:
        """True if this name on the broker belongs to the namespace."""
        return name.startswith(self._theirs)

    def from_broker(self, name: str) -> str:
        """Convert a name on the broker."""
        return self._ours + name.removeprefix(self._theirs) if self.is_ours(name) else name

    def arguments(self, arguments: Mapping[str, str | int]) -> dict[str, str | int]:
        """Convert a queue's arguments."""
        return {
            key: self.to_broker(value) if key == _DEAD_LETTER_EXCHANGE and isinstance(value, str) else value
            for key, value in arguments.items()
        }

    def exchange(self, spec: ExchangeSpec) -> NamedExchange:
        """Convert an exchange."""
        alternate = None if spec.alternate is None else self.to_broker(spec.alternate)
        return NamedExchange(self.to_broker(spec.name), spec.kind, alternate)

    def queue(self, spec: QueueSpec) -> NamedQueue:
        """Convert a queue."""
        bindings = tuple(self.binding(binding) for binding in spec.bindings)
        return NamedQueue(
            self.to_broker(spec.name), bindings, self.arguments(spec.arguments), exclusive=spec.exclusive
        )

    def binding(self, spec: BindingSpec) -> NamedBinding:
        """Convert a binding."""
        return NamedBinding(self.to_broker(spec.exchange), spec.key)

    def topology(self, spec: TopologySpec) -> NamedTopology:
        """Convert a topology."""
        return NamedTopology(
            tuple(self.exchange(exchange) for exchange in spec.exchanges),
            tuple(self.queue(queue) for queue in spec.queues),
        )

    def message(self, message: OutgoingMessage) -> NamedMessage:
        """Convert a message to publish. Through the nameless exchange the key is the name of a queue."""
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
        """Convert a delivery, for our code."""
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


class NamespacedBus(WrappedBus):
    """A bus whose names have another first part on the broker."""

    def __init__(self, inner: Bus, namespace: str) -> None:
        super().__init__(inner)
        self._names = NameMapper(namespace)

    async def declare(self, topology: TopologySpec) -> None:
        await self._inner.declare(self._names.topology(topology))

    async def bind(self, queue: QueueSpec) -> list[BindingSpec]:
        """Declare and bind a queue; those bindings whose exchange is missing."""
        missing = set(await self._inner.bind(self._names.queue(queue)))
        return [binding for binding in queue.bindings if self._names.binding(binding) in missing]

    async def unbind(self, queue: str, bindings: Sequence[BindingSpec]) -> None:
        """Remove these bindings where they exist."""
        await self._inner.unbind(self._names.to_broker(queue), [self._names.binding(one) for one in bindings])

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        return await self._inner.publish([self._names.message(one) for one in messages], timeout=timeout)

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        found = await self._inner.subscribe(self._names.to_broker(queue), prefetch=prefetch)
        return _NamespacedSubscription(found, self._names)

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        async def handle(delivery: Delivery) -> None:
            await handler(self._names.delivery(delivery))

        return await self._inner.listen(self._names.to_broker(queue), handle)

    async def backlog(self, queue: str) -> QueueStats:
        return await self._inner.backlog(self._names.to_broker(queue))


class _NamespacedSubscription(WrappedSubscription):
    """A subscription whose deliveries have our names."""

    def __init__(self, inner: Subscription, names: NameMapper) -> None:
        super().__init__(inner)
        self._names = names

    async def __anext__(self) -> list[Delivery]:
        return [self._names.delivery(one) for one in await super().__anext__()]

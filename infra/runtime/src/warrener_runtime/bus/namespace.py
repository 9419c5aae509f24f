"""Namespaces: several systems on one virtual host of a broker.

Code uses names such as `warrener.requests`. On the broker the namespace is the first part of each name, and
this module converts between the two. Names that do not begin with `warrener.` belong to others and stay as
they are.
"""

from collections.abc import Mapping
from typing import Any, cast

from warrener_runtime.bus import types
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
        return self._theirs + name.removeprefix(self._ours) if name.startswith(self._ours) else name

    def is_ours(self, name: str) -> bool:
        """True if this name on the broker belongs to the namespace."""
        return name.startswith(self._theirs)

    def from_broker(self, name: str) -> str:
        return self._ours + name.removeprefix(self._theirs) if self.is_ours(name) else name

    def arguments(self, arguments: Mapping[str, str | int]) -> dict[str, str | int]:
        return {
            key: self.to_broker(value) if key == _DEAD_LETTER_EXCHANGE and isinstance(value, str) else value
            for key, value in arguments.items()
        }

    def exchange(self, spec: types.ExchangeSpec) -> types.NamedExchange:
        alternate = None if spec.alternate is None else self.to_broker(spec.alternate)
        return types.NamedExchange(self.to_broker(spec.name), spec.kind, alternate)

    def queue(self, spec: types.QueueSpec) -> types.NamedQueue:
        bindings = tuple(self.binding(binding) for binding in spec.bindings)
        return types.NamedQueue(
            self.to_broker(spec.name), bindings, self.arguments(spec.arguments), exclusive=spec.exclusive
        )

    def binding(self, spec: types.BindingSpec) -> types.NamedBinding:
        return types.NamedBinding(self.to_broker(spec.exchange), spec.key)

    def topology(self, spec: types.TopologySpec) -> types.NamedTopology:
        return types.NamedTopology(
            tuple(self.exchange(exchange) for exchange in spec.exchanges),
            tuple(self.queue(queue) for queue in spec.queues),
        )

    def message(self, message: types.OutgoingMessage) -> types.NamedMessage:
        """Convert a message to publish. Through the nameless exchange the key is the name of a queue."""
        exchange, key = message.exchange, message.routing_key
        return types.NamedMessage(
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

    def delivery(self, delivery: types.Delivery) -> types.Delivery:
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

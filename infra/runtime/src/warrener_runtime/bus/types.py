"""The values that cross the bus: messages, deliveries, topology and results. Pure.

Messages and topology are Protocols of plain attributes, so that any frozen class with these fields will do.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol


class OutgoingMessage(Protocol):
    """A message to publish. `message_id` must be unique among those in flight."""

    @property
    def exchange(self) -> str: ...
    @property
    def routing_key(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def content_type(self) -> str: ...
    @property
    def message_id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def persistent(self) -> bool: ...
    @property
    def mandatory(self) -> bool: ...


class ExchangeSpec(Protocol):
    """An exchange to declare; durable."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def alternate(self) -> str | None: ...


class BindingSpec(Protocol):
    """A binding of a queue to an exchange."""

    @property
    def exchange(self) -> str: ...
    @property
    def key(self) -> str: ...


class QueueSpec(Protocol):
    """A queue to declare; durable unless exclusive."""

    @property
    def name(self) -> str: ...
    @property
    def bindings(self) -> Sequence[BindingSpec]: ...
    @property
    def arguments(self) -> Mapping[str, str | int]: ...
    @property
    def exclusive(self) -> bool: ...


class TopologySpec(Protocol):
    """Exchanges and queues that must exist. The bus declares them again after every reconnect."""

    @property
    def exchanges(self) -> Sequence[ExchangeSpec]: ...
    @property
    def queues(self) -> Sequence[QueueSpec]: ...


class NamedExchange(NamedTuple):
    """An exchange by its name on the broker."""

    name: str
    kind: str
    alternate: str | None


class NamedBinding(NamedTuple):
    """A binding by the name of its exchange on the broker."""

    exchange: str
    key: str


class NamedQueue(NamedTuple):
    """A queue by its name on the broker."""

    name: str
    bindings: Sequence[BindingSpec]
    arguments: Mapping[str, str | int]
    exclusive: bool


class NamedTopology(NamedTuple):
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


DeclareMode = Literal["if-missing", "never"]
"""Which missing exchanges and queues a bus declares; those of its own, which are exclusive, always."""


class PublishResult(StrEnum):
    """The result of publishing one message."""

    CONFIRMED = "confirmed"  # stored by every queue it was routed to (also: by none, if it was not mandatory)
    UNROUTABLE = "unroutable"  # no such exchange, or mandatory and no queue bound for its key: stored nowhere
    REFUSED = "refused"  # refused, by a full queue or for want of a permission: stored nowhere
    UNKNOWN = "unknown"  # no confirm in time, or the connection broke: publish again under the same id


_NO_HEADERS: Mapping[str, object] = MappingProxyType({})


class QueueStats(NamedTuple):
    """Waiting messages and consumers of a queue; zeros for a queue that does not exist."""

    waiting: int
    consumers: int


class Delivery(NamedTuple):
    """A received message. `epoch` identifies its channel, as a tag is valid on its channel alone.

    `readable`: False if a property or a header has no value, such as a time after the year 9999. `user_id`:
    the broker's user that published it, which the broker has checked; None if the publisher does not say.
    """

    body: bytes
    routing_key: str
    exchange: str
    redelivered: bool
    tag: int
    epoch: int
    content_type: str | None = None
    message_id: str | None = None
    type: str | None = None
    headers: Mapping[str, object] = _NO_HEADERS
    readable: bool = True
    user_id: str | None = None


@lru_cache(maxsize=4096)
def matches(pattern: str, key: str) -> bool:
    """True if a topic pattern matches a key: `*` is one word, `#` any number of words, also none."""
    return _match(tuple(pattern.split(".")), tuple(key.split(".")))


def _match(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if not pattern:
        return not words
    head, rest = pattern[0], pattern[1:]
    if head == "#":
        return any(_match(rest, words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and head in {"*", words[0]} and _match(rest, words[1:])

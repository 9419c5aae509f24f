"""Read the messages of a queue: decode each event, and compare it with the address by which it came.

An event arrives by a route that its class declares: RabbitMQ's topic permissions let a user publish certain
routing keys, so an event under the key of another one is a `DecodeFailure`, as an unreadable one. A message
that came by no exchange has no key to compare: it was published straight to the queue, for which its sender
needs the permission to write to `amq.default`. An event of another queue is a failure there too.

The broker compares no key of a dead letter: a user who may publish to an exchange can declare a queue that
dead-letters into it under any key. So a message that died in a queue outside the topology is a failure, and
one with a property or header that cannot be read, as its deaths may be what cannot.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from warrener_contracts import codec, topology
from warrener_contracts.events import Reason, declared_events
from warrener_contracts.events.envelope import EventClass, Route
from warrener_contracts.messages import ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY, ORIGINAL_USER, Message
from warrener_contracts.parking import park_failure
from warrener_contracts.reader import Registry
from warrener_contracts.topology import MAX_EVENTS, MAX_MESSAGE

_EVENTS_PER_STEP = 250  # events that are decoded before the event loop may run
_PASSED_ON = {topology.RETURN: topology.DELAY}
"""Exchanges that messages of another one reach under their own key: those that leave the delay queues."""
_OWN_EXCHANGES = frozenset(exchange.name for exchange in topology.EXCHANGES)
_NO_ROUTES: tuple[Route, ...] = ()
_OWN_QUEUES = frozenset(queue.name for queue in topology.TOPOLOGY.queues)
_DISPATCH_QUEUES = topology.dispatch_queue("").name

Found = codec.DecodedEvent | codec.DecodeFailure


class ReceivedMessage(Protocol):
    """A delivery of a queue."""

    @property
    def body(self) -> bytes: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def exchange(self) -> str: ...
    @property
    def routing_key(self) -> str: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def type(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, object]: ...
    @property
    def readable(self) -> bool: ...
    @property
    def user_id(self) -> str | None: ...


def original_address(message: ReceivedMessage) -> tuple[str, str]:
    """The exchange and the routing key by which a message came first.

    A parked message that is requeued goes straight to its queue; its headers hold the address.
    """
    if message.exchange:
        return message.exchange, message.routing_key
    exchange, key = message.headers.get(ORIGINAL_EXCHANGE), message.headers.get(ORIGINAL_ROUTING_KEY)
    if isinstance(exchange, str) and isinstance(key, str):
        return exchange, key
    return "", message.routing_key


def original_user(message: ReceivedMessage) -> str | None:
    """The broker's user that published a message first, which the broker has compared; None if it said none.

    A supervisor requeues a parked message straight to its queue, which no guest may publish to; one that was
    parked by an earlier version names no user.
    """
    original = None if message.exchange else message.headers.get(ORIGINAL_USER)
    return (original or None) if isinstance(original, str) else message.user_id


def arrival_address(message: ReceivedMessage) -> tuple[str, str]:
    """The original address if the broker has compared its key; else the name of no exchange."""
    exchange, key = original_address(message)
    if not message.readable:
        return "a message with properties that cannot be read", key
    if message.exchange and "x-death" in message.headers:
        exchange = foreign_origin(message.headers["x-death"]) or exchange
    return exchange, key


M = TypeVar("M", bound=ReceivedMessage)


class ParkedEvent(NamedTuple):
    """An event that its queue cannot use, and the message that parks it."""

    failure: codec.DecodeFailure
    message: Message


@dataclass(frozen=True, slots=True)
class Inbox:
    """Reads the messages of `queue`, whose consumer handles events of these kinds."""

    queue: str
    kinds: AbstractSet[EventClass]
    limit: int = MAX_MESSAGE
    max_events: int = MAX_EVENTS

    async def read(self, messages: Iterable[M]) -> list[tuple[M, list[codec.DecodedEvent | ParkedEvent]]]:
        """Decode each of these messages as `decode_message` does, in order; park what the queue cannot use.

        The event loop runs between steps, so that large messages do not delay heartbeats and health checks.
        """
        read: list[tuple[M, list[codec.DecodedEvent | ParkedEvent]]] = []
        events = 0
        for message in messages:
            usable: list[codec.DecodedEvent | ParkedEvent] = []
            for index, part in enumerate(_checked_parts(message, self.limit, self.max_events)):
                usable += map(self._usable, part)
                events += len(part)
                if index or events >= _EVENTS_PER_STEP:  # further parts are decoded one by one, which is slow
                    events = 0
                    await asyncio.sleep(0)
            read.append((message, usable))
        return read

    def _usable(self, found: Found) -> codec.DecodedEvent | ParkedEvent:
        if isinstance(found, codec.DecodedEvent):
            if type(found.event) in self.kinds:
                return found
            detail = f"expected an event for {self.queue}, got {found.event.type}"
            found = codec.refuse(found, Reason.WRONG_QUEUE, detail)
        return ParkedEvent(found, park_failure(found, self.queue))


def decode_message(
    message: ReceivedMessage,
    *,
    limit: int = MAX_MESSAGE,
    max_events: int = MAX_EVENTS,
    registry: Registry | None = None,
) -> list[Found]:
    """Decode one message as `codec.decode` does; events that came by the address of others are failures.

    At most MAX_DECODE_FAILURES of these are single; the others of a message are joined into one.
    """
    return [found for part in _checked_parts(message, limit, max_events, registry) for found in part]


def _checked_parts(
    message: ReceivedMessage, limit: int, max_events: int, registry: Registry | None = None
) -> Iterator[Sequence[Found]]:
    exchange, key = arrival_address(message)
    parts = codec.decode_parts(
        message.body, message.content_type, limit=limit, max_events=max_events, registry=registry
    )
    if not exchange:
        yield from parts
        return
    check = _AddressCheck(exchange, key, registry)
    for part in parts:
        yield part if check.accepts_all(part) else check.sort(part)
    yield from check.joined()


def foreign_origin(deaths: object) -> str | None:
    """Name the queue outside the topology that a message has died in; None if there is none."""
    for death in cast("Iterable[Any]", deaths) if isinstance(deaths, list) else [deaths]:
        queue = str(cast("dict[str, Any]", death).get("queue")) if isinstance(death, dict) else "?"
        if queue not in _OWN_QUEUES and not queue.startswith(_DISPATCH_QUEUES):
            return f"the dead letters of {queue}"
    return None


class _AddressCheck:
    """Compares the events of one message with the exchange and the routing key by which it came."""

    def __init__(self, exchange: str, key: str, registry: Registry | None) -> None:
        self._exchange, self._key = exchange, key
        self._routes = _routes_by_class(exchange, None if registry is None else registry.kinds)
        self._failures = 0
        self._rest: list[tuple[Reason, bytes]] = []

    def accepts_all(self, part: Sequence[Found]) -> bool:
        """True if all are events that may come by this address, as most are."""
        return all(map(self._accepts, part))

    def sort(self, part: Sequence[Found]) -> list[Found]:
        """Replace the others by failures, with the address."""
        sorted_part: list[Found] = []
        for found in part:
            if isinstance(found, codec.DecodeFailure):
                sorted_part.append(self._with_address(found))
            elif self._accepts(found):
                sorted_part.append(found)
            else:
                self._failures += 1
                reason, detail = self._explain(found)
                if self._failures <= codec.MAX_DECODE_FAILURES:
                    sorted_part.append(self._with_address(codec.refuse(found, reason, detail)))
                else:
                    self._rest.append((reason, found.body))
        return sorted_part

    def joined(self) -> Iterator[list[Found]]:
        """The failures beyond MAX_DECODE_FAILURES, as one."""
        if self._rest:
            reasons = Counter(reason for reason, _ in self._rest)
            yield [self._with_address(codec.join_failures([text for _, text in self._rest], reasons))]

    def _accepts(self, found: Found) -> bool:
        if not isinstance(found, codec.DecodedEvent):
            return False
        event = found.event
        for route in self._routes.get(type(event), _NO_ROUTES):
            if route.accepts(self._key, event.data):
                return True
        return False

    def _explain(self, found: codec.DecodedEvent) -> tuple[Reason, str]:
        event, routes = found.event, self._routes.get(type(found.event), _NO_ROUTES)
        if not routes and self._exchange in _OWN_EXCHANGES:
            return Reason.WRONG_QUEUE, f"expected an event of {self._exchange}, got {event.type}"
        wanted = " or ".join(
            f"{_arrival_exchange(route)} with the routing key {route.expected_key(event.data)}"
            for route in routes or event.routes[:1]
        )
        return Reason.ROUTING_KEY_MISMATCH, (
            f"expected {event.type} by {wanted}, got {self._exchange} with {self._key}: publish each event "
            "under its own key"
        )

    def _with_address(self, failure: codec.DecodeFailure) -> codec.DecodeFailure:
        return replace(failure, arrived_by=(self._exchange, self._key))


@lru_cache(maxsize=64)  # other exchanges may be bound to a queue too
def _routes_by_class(
    exchange: str, kinds: tuple[EventClass, ...] | None
) -> Mapping[EventClass, tuple[Route, ...]]:
    """The routes by which events of each of these classes (None: of all) arrive from `exchange`."""
    found = {
        kind: tuple(route for route in kind.routes if _arrival_exchange(route) == exchange)
        for kind in (declared_events().values() if kinds is None else kinds)
    }
    return {kind: routes for kind, routes in found.items() if routes}


def _arrival_exchange(route: Route) -> str:
    return next((arrival for arrival, own in _PASSED_ON.items() if own == route.exchange), route.exchange)

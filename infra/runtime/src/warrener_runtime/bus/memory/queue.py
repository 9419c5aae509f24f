"""A queue of the memory broker: its messages, its consumers, its limits, and expiry."""

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, cast

from warrener_runtime.bus.types import OutgoingMessage


@dataclass(slots=True)
class StoredMessage:
    """One copy of a message in one queue."""

    body: bytes
    exchange: str
    routing_key: str
    content_type: str | None
    message_id: str | None
    type: str | None
    headers: Mapping[str, object]
    persistent: bool
    position: int = 0  # its place in the queue; unchanged when it is requeued
    returned: int = 0  # how often it was requeued, for the delivery limit
    expires_at: float | None = None
    user_id: str | None = None


def to_stored_message(outgoing: OutgoingMessage, user_id: str | None = None) -> StoredMessage:
    """Convert a published message."""
    return StoredMessage(
        body=outgoing.body,
        exchange=outgoing.exchange,
        routing_key=outgoing.routing_key,
        content_type=outgoing.content_type,
        message_id=outgoing.message_id,
        type=outgoing.type,
        headers=dict(outgoing.headers),
        persistent=outgoing.persistent,
        user_id=user_id,
    )


def _deaths(message: StoredMessage, queue: str, reason: str, at: datetime) -> list[dict[str, object]]:
    """Put a death in front of the history; a repeat of an earlier one increments its count."""
    history = cast("list[dict[str, object]]", message.headers.get("x-death", []))
    before = [record for record in history if (record["queue"], record["reason"]) == (queue, reason)]
    newest: dict[str, object] = {
        "count": 1 + sum(cast("int", record["count"]) for record in before),
        "reason": reason,
        "queue": queue,
        "time": at,
        "exchange": message.exchange,
        "routing-keys": [message.routing_key],
    }
    return [newest, *(record for record in history if record not in before)]


class QueueConsumer(NamedTuple):
    """A consumer, as the queue sees it: what it does with a message, and once it is cancelled."""

    has_capacity: Callable[[], bool]
    take: Callable[[StoredMessage], None]
    on_cancelled: Callable[[], None]


class MemoryQueue:
    """Messages in order of arrival. A requeued message returns to its old place.

    The arguments that are no attributes here are stored and compared.
    """

    def __init__(self, name: str, arguments: Mapping[str, str | int], owner: object | None) -> None:
        self.name = name
        self.arguments = dict(arguments)
        self.owner = owner  # the connection of an exclusive queue
        given = cast("Mapping[str, Any]", arguments)
        self._quorum = given.get("x-queue-type") == "quorum"
        self._max_length: int | None = given.get("x-max-length")
        self._rejects_when_full = given.get("x-overflow") == "reject-publish"
        self._ttl: float | None = given["x-message-ttl"] / 1000 if "x-message-ttl" in given else None
        self._dead_letter_exchange: str | None = given.get("x-dead-letter-exchange")
        self._dead_letter_key: str | None = given.get("x-dead-letter-routing-key")
        self._delivery_limit: int | None = given.get("x-delivery-limit")
        self.dead_letters_at_least_once = given.get("x-dead-letter-strategy") == "at-least-once"
        self.muted = False
        self.undelivered_dead_letters: deque[StoredMessage] = deque()  # no queue has taken them yet
        self.consumers: list[QueueConsumer] = []
        self._ready: list[tuple[int, StoredMessage]] = []
        self._arrived = 0

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def full(self) -> bool:
        """True if it refuses one more."""
        return self._rejects_when_full and self._over(len(self) + 1)

    def add(self, message: StoredMessage, now: float) -> list[StoredMessage]:
        """Store a copy; return the oldest messages that were dropped for it."""
        self._arrived += 1
        expires_at = None if self._ttl is None else now + self._ttl
        copy = replace(message, position=self._arrived, returned=0, expires_at=expires_at)
        heapq.heappush(self._ready, (self._arrived, copy))
        dropped: list[StoredMessage] = []
        while self._over(len(self)) and not self._rejects_when_full:
            dropped.append(heapq.heappop(self._ready)[1])
        return dropped

    def requeue(self, message: StoredMessage) -> bool:
        """Return a message to its place; False if that exceeds the delivery limit."""
        message.returned += 1
        limit = self._delivery_limit
        if limit is not None and message.returned > limit:
            return False
        heapq.heappush(self._ready, (message.position, message))
        return True

    def dead_letter(self, message: StoredMessage, reason: str, at: datetime) -> StoredMessage | None:
        """Make the dead letter, with the `x-death` headers that RabbitMQ writes; None without an exchange
        for it."""
        if self._dead_letter_exchange is None:
            return None
        key = self._dead_letter_key
        first = {"exchange": message.exchange, "queue": self.name, "reason": reason}
        return replace(
            message,
            exchange=self._dead_letter_exchange,
            routing_key=message.routing_key if key is None else key,
            headers={
                **{f"x-first-death-{name}": value for name, value in first.items()},
                **message.headers,
                "x-death": _deaths(message, self.name, reason, at),
            },
            returned=0,
            expires_at=None,
        )

    def deliver_ready(self) -> None:
        """Deliver waiting messages to the consumers with capacity, in turn."""
        while self._ready and not self.muted:
            consumer = next((one for one in self.consumers if one.has_capacity()), None)
            if consumer is None:
                return
            self.consumers.remove(consumer)
            self.consumers.append(consumer)
            consumer.take(heapq.heappop(self._ready)[1])

    def next_expiry(self) -> float | None:
        """Return the time when the head expires, the first as all have one time-to-live."""
        return self._ready[0][1].expires_at if self._ready else None

    def take_expired(self, now: float) -> list[StoredMessage]:
        expired: list[StoredMessage] = []
        while (due := self.next_expiry()) is not None and due <= now:
            expired.append(heapq.heappop(self._ready)[1])
        return expired

    def peek(self) -> list[StoredMessage]:
        """List the waiting messages, oldest first."""
        return [message for _, message in sorted(self._ready, key=lambda entry: entry[0])]

    def purge(self, *, transient_only: bool = False) -> None:
        """Empty the queue, or drop only the messages that would not survive a restart of the broker."""
        durable = [entry for entry in self._ready if self._quorum or entry[1].persistent]
        self._ready = durable if transient_only else []
        heapq.heapify(self._ready)

    def _over(self, length: int) -> bool:
        return self._max_length is not None and length > self._max_length

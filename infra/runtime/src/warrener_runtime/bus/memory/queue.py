"""A queue of the memory broker: what waits, who takes it, and what its arguments forbid."""

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from warrener_runtime.bus.memory.message import StoredMessage, copy_for_queue


class QueueConsumer(Protocol):
    """Who takes messages from a queue."""

    @property
    def has_capacity(self) -> bool:
        """Whether its prefetch lets it take one more."""
        ...

    def take(self, message: StoredMessage) -> None:
        """Receive one; it stays unacknowledged until the consumer settles it."""
        ...

    def on_cancelled(self) -> None:
        """The broker gives it nothing any more."""
        ...


@dataclass(frozen=True, slots=True)
class QueueRules:
    """The arguments of a queue that the memory broker honours; the others it keeps and compares."""

    quorum: bool
    max_length: int | None
    rejects_when_full: bool
    ttl: float | None
    dead_letter_exchange: str | None
    dead_letter_key: str | None
    dead_letters_at_least_once: bool
    delivery_limit: int | None

    @classmethod
    def of(cls, arguments: Mapping[str, str | int]) -> Self:
        """Read them."""
        ttl = _number(arguments, "x-message-ttl")
        return cls(
            quorum=arguments.get("x-queue-type") == "quorum",
            max_length=_number(arguments, "x-max-length"),
            rejects_when_full=arguments.get("x-overflow") == "reject-publish",
            ttl=None if ttl is None else ttl / 1000,
            dead_letter_exchange=_text(arguments, "x-dead-letter-exchange"),
            dead_letter_key=_text(arguments, "x-dead-letter-routing-key"),
            dead_letters_at_least_once=arguments.get("x-dead-letter-strategy") == "at-least-once",
            delivery_limit=_number(arguments, "x-delivery-limit"),
        )


class MemoryQueue:
    """Messages in order of arrival. What is given back returns to its old place."""

    def __init__(self, name: str, arguments: Mapping[str, str | int], owner: object | None) -> None:
        self.name = name
        self.arguments = dict(arguments)
        self.owner = owner  # the connection of an exclusive queue
        self.rules = QueueRules.of(arguments)
        self.muted = False
        self.undelivered_dead_letters: deque[StoredMessage] = (
            deque()
        )  # dead letters that nobody could take yet
        self.consumers: list[QueueConsumer] = []
        self._ready: list[tuple[int, StoredMessage]] = []
        self._arrived = 0

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def full(self) -> bool:
        """Whether it refuses one more."""
        return self.rules.rejects_when_full and self._over(len(self) + 1)

    def add(self, message: StoredMessage, now: float) -> list[StoredMessage]:
        """Store a copy; returns the oldest ones, if they had to make room."""
        self._arrived += 1
        expires_at = None if self.rules.ttl is None else now + self.rules.ttl
        heapq.heappush(self._ready, (self._arrived, copy_for_queue(message, self._arrived, expires_at)))
        dropped: list[StoredMessage] = []
        while self._over(len(self)) and not self.rules.rejects_when_full:
            dropped.append(heapq.heappop(self._ready)[1])
        return dropped

    def requeue(self, message: StoredMessage) -> bool:
        """Put it back where it was; False if it was given back too often."""
        message.returned += 1
        limit = self.rules.delivery_limit
        if limit is not None and message.returned > limit:
            return False
        heapq.heappush(self._ready, (message.position, message))
        return True

    def deliver_ready(self) -> None:
        """Give what waits to the consumers that have room, in turn."""
        while self._ready and not self.muted:
            consumer = next((one for one in self.consumers if one.has_capacity), None)
            if consumer is None:
                return
            self.consumers.remove(consumer)
            self.consumers.append(consumer)
            consumer.take(heapq.heappop(self._ready)[1])

    def next_expiry(self) -> float | None:
        """When the first message expires; all wait equally long, so it is the head."""
        return self._ready[0][1].expires_at if self._ready else None

    def take_expired(self, now: float) -> list[StoredMessage]:
        """Remove what has waited for too long."""
        expired: list[StoredMessage] = []
        while (due := self.next_expiry()) is not None and due <= now:
            expired.append(heapq.heappop(self._ready)[1])
        return expired

    def peek(self) -> list[StoredMessage]:
        """What waits, oldest first."""
        return [message for _, message in sorted(self._ready, key=lambda entry: entry[0])]

    def purge(self, *, transient_only: bool = False) -> None:
        """Empty it, or drop only what would not survive a restart of the broker."""
        remaining = [] if not transient_only else [entry for entry in self._ready if self._survives(entry[1])]
        heapq.heapify(remaining)
        self._ready = remaining

    def _survives(self, message: StoredMessage) -> bool:
        return self.rules.quorum or message.persistent

    def _over(self, length: int) -> bool:
        return self.rules.max_length is not None and length > self.rules.max_length


def _number(arguments: Mapping[str, str | int], name: str) -> int | None:
    value = arguments.get(name)
    return None if value is None else int(value)


def _text(arguments: Mapping[str, str | int], name: str) -> str | None:
    value = arguments.get(name)
    return None if value is None else str(value)

"""A message as a queue of the memory broker keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from warrener_runtime.bus.port import OutgoingMessage


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
    position: int = 0  # its place in the queue; kept when it is given back
    returned: int = 0  # how often it was given back: what the delivery limit counts
    expires_at: float | None = None


def to_stored_message(outgoing: OutgoingMessage) -> StoredMessage:
    """The message that the broker makes of what was published."""
    return StoredMessage(
        body=outgoing.body,
        exchange=outgoing.exchange,
        routing_key=outgoing.routing_key,
        content_type=outgoing.content_type,
        message_id=outgoing.message_id,
        type=outgoing.type,
        headers=dict(outgoing.headers),
        persistent=outgoing.persistent,
    )


def copy_for_queue(message: StoredMessage, position: int, expires_at: float | None) -> StoredMessage:
    """A queue's own copy: it has been given back by nobody yet."""
    return replace(message, position=position, returned=0, expires_at=expires_at)


@dataclass(frozen=True, slots=True)
class DeathRecord:
    """Why and when a message left a queue without being acknowledged."""

    queue: str
    reason: str
    at: datetime
    exchange: str  # where it goes
    routing_key: str | None  # under which key; None keeps the one it has


def dead_letter(message: StoredMessage, death: DeathRecord) -> StoredMessage:
    """The message as it is sent on, with the `x-death` headers that RabbitMQ writes."""
    headers = dict(message.headers)
    headers["x-death"] = _deaths(message, death)
    headers.setdefault("x-first-death-exchange", message.exchange)
    headers.setdefault("x-first-death-queue", death.queue)
    headers.setdefault("x-first-death-reason", death.reason)
    return replace(
        message,
        exchange=death.exchange,
        routing_key=message.routing_key if death.routing_key is None else death.routing_key,
        headers=headers,
        returned=0,
        expires_at=None,
    )


def _deaths(message: StoredMessage, death: DeathRecord) -> list[dict[str, object]]:
    """The history with this death in front; a repeat of an earlier one counts up instead of adding a line."""
    history = cast("list[dict[str, object]]", message.headers.get("x-death", []))
    before = [record for record in history if _is_same_death(record, death)]
    newest: dict[str, object] = {
        "count": 1 + sum(cast("int", record["count"]) for record in before),
        "reason": death.reason,
        "queue": death.queue,
        "time": death.at,
        "exchange": message.exchange,
        "routing-keys": [message.routing_key],
    }
    return [newest, *(record for record in history if not _is_same_death(record, death))]


def _is_same_death(record: Mapping[str, object], death: DeathRecord) -> bool:
    return record["queue"] == death.queue and record["reason"] == death.reason

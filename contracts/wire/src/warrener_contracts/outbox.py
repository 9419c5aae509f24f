"""Rules of publishing for services: batches, missing queues, messages that may be deferred. Pure."""

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID

from warrener_contracts.codec import dispatched_attempts
from warrener_contracts.messages import Message, batch_messages
from warrener_contracts.topology import (
    COMMAND_QUEUES,
    COMMANDS,
    DELAY,
    DISPATCH,
    EVENTS,
    REQUESTS,
    REQUESTS_QUEUE,
    Queue,
    dispatch_queue,
)


class AddressedMessage(Protocol):
    """A message with its address."""

    @property
    def exchange(self) -> str: ...
    @property
    def routing_key(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def content_type(self) -> str: ...


def combine(messages: Iterable[Message]) -> list[Message]:
    """Return each message once, by its id, batched into as few messages as possible."""
    return batch_messages({message.message_id: message for message in messages}.values())


def may_defer(message: AddressedMessage) -> bool:
    """True for a dispatch, which the store holds, and for an event, whose refusal concerns one subscriber
    alone."""
    return message.exchange in {DISPATCH, DELAY, EVENTS}


def missing_queue(message: AddressedMessage) -> Queue | None:
    """Return the queue that a returned message needs: attempts wait for their agent even if it never ran."""
    if message.exchange == DISPATCH:
        return dispatch_queue(message.routing_key.partition(".")[0])
    if message.exchange == COMMANDS:
        return next((queue for queue in COMMAND_QUEUES if _is_bound(queue, message.routing_key)), None)
    return REQUESTS_QUEUE if message.exchange == REQUESTS else None


def _is_bound(queue: Queue, key: str) -> bool:
    """True if a binding of a queue of commands takes the key: they are whole keys, or `word.#`."""
    return any(
        key.startswith(pattern.removesuffix("#")) if pattern.endswith(".#") else key == pattern
        for pattern in (binding.key for binding in queue.bindings)
    )


def deferred_attempts(deferred: Iterable[AddressedMessage]) -> list[tuple[UUID, int]]:
    """Return the attempts, job and number, whose queue did not take their dispatch."""
    return [
        attempt
        for message in deferred
        if message.exchange != EVENTS
        for attempt in dispatched_attempts(message.body, message.content_type)
    ]

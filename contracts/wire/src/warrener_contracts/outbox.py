"""Rules of publishing: batches, what a returned message needs, messages that may be deferred. Pure."""

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID

from warrener_contracts.codec import dispatched_attempts
from warrener_contracts.messages import Message, batch_messages
from warrener_contracts.topology import DELAY, DISPATCH, EVENTS, EXCHANGES, TOPOLOGY, Topology, dispatch_queue

_OWN_EXCHANGES = frozenset(exchange.name for exchange in EXCHANGES)


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


def missing_topology(message: AddressedMessage) -> Topology | None:
    """Return what a returned message needs: every exchange, and its queue, in which attempts wait for their
    agent even if it never ran. None for an exchange of others."""
    if message.exchange == DISPATCH:
        return Topology(EXCHANGES, (dispatch_queue(message.routing_key.partition(".")[0]),))
    return TOPOLOGY if message.exchange in _OWN_EXCHANGES else None


def deferred_attempts(deferred: Iterable[AddressedMessage]) -> list[tuple[UUID, int]]:
    """Return the attempts, job and number, whose queue did not take their dispatch."""
    return [
        attempt
        for message in deferred
        if message.exchange != EVENTS
        for attempt in dispatched_attempts(message.body, message.content_type)
    ]

"""Publish the scheduler's messages; the missing queue of a dispatch is declared."""

from collections.abc import Iterable
from uuid import UUID

from warrener_contracts.codec import dispatched_attempts
from warrener_contracts.messages import Message, batch_messages
from warrener_contracts.topology import DISPATCH, EVENTS, Topology, dispatch_queue
from warrener_runtime.bus.port import Bus
from warrener_runtime.bus.types import OutgoingMessage
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import UnroutableMessages, publish_or_defer

_log = get_logger("publishing")


async def publish(bus: Bus, messages: Iterable[Message], clock: Clock) -> list[tuple[UUID, int]]:
    """Return once the broker has confirmed these, batched into as few messages as possible.

    Returns the attempts whose queue did not take their dispatch. A dispatch waits for its agent even if no
    agent has served its queue yet: the queue is declared.
    """
    unique = batch_messages({message.message_id: message for message in messages}.values())
    if not unique:
        return []
    try:
        left = await publish_or_defer(bus, unique, clock=clock, may_defer=_may_leave)
    except UnroutableMessages as unroutable:
        ids = {message.message_id for message in unroutable.messages}
        retried = [message for message in unique if message.message_id in ids]
        await declare_queues(bus, (_queue_of(message) for message in retried if message.exchange == DISPATCH))
        again = await publish_or_defer(bus, retried, clock=clock, may_defer=_may_leave)
        left = [*unroutable.deferred, *again]
    dispatches = (message for message in left if message.exchange == DISPATCH)
    return [
        each for message in dispatches for each in dispatched_attempts(message.body, message.content_type)
    ]


async def declare_queues(bus: Bus, queues: Iterable[str]) -> None:
    names = sorted(set(queues))
    await bus.declare(Topology((), tuple(dispatch_queue(name) for name in names)))
    _log.info("Dispatch queues were declared.", action="publishing.declared", queues=names)


def _may_leave(message: OutgoingMessage) -> bool:
    """True for dispatches, which are in the store, and events, whose refusal affects one subscriber alone."""
    return message.exchange in {DISPATCH, EVENTS}


def _queue_of(dispatch: Message) -> str:
    return dispatch.routing_key.partition(".")[0]

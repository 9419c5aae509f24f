"""Publishing what the scheduler has to say; the queue of a dispatch is made where it is missing."""

from collections.abc import Iterable
from uuid import UUID

from warrener_contracts.codec import dispatched_attempts
from warrener_contracts.messages import Message, batch_messages
from warrener_contracts.topology import DISPATCH, EVENTS, Topology, dispatch_queue
from warrener_runtime.bus.port import Bus, OutgoingMessage
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import UnroutableMessages, publish_or_defer

_log = get_logger("publishing")


async def publish(bus: Bus, letters: Iterable[Message], clock: Clock) -> list[tuple[UUID, int]]:
    """Return once the broker has confirmed these, in as few messages as they fit; the attempts whose queue
    did not take their dispatch.

    A dispatch waits for its agent even if no agent has served its queue yet: the queue is declared.
    """
    unique = batch_messages({letter.message_id: letter for letter in letters}.values())
    if not unique:
        return []
    try:
        left = await publish_or_defer(bus, unique, clock=clock, may_defer=_may_leave)
    except UnroutableMessages as stray:
        strays = {letter.message_id for letter in stray.messages}
        homeless = [letter for letter in unique if letter.message_id in strays]
        await declare_queues(bus, (_queue_of(letter) for letter in homeless if letter.exchange == DISPATCH))
        again = await publish_or_defer(bus, homeless, clock=clock, may_defer=_may_leave)
        left = [*stray.deferred, *again]
    dispatches = (letter for letter in left if letter.exchange == DISPATCH)
    return [each for letter in dispatches for each in dispatched_attempts(letter.body, letter.content_type)]


async def declare_queues(bus: Bus, queues: Iterable[str]) -> None:
    """Make these dispatch queues exist."""
    names = sorted(set(queues))
    await bus.declare(Topology((), tuple(dispatch_queue(name) for name in names)))
    _log.info("Dispatch queues were declared.", action="publishing.declared", queues=names)


def _may_leave(letter: OutgoingMessage) -> bool:
    """A dispatch is kept in the store; an event that a subscriber's queue refuses is his loss alone."""
    return letter.exchange in {DISPATCH, EVENTS}


def _queue_of(dispatch: Message) -> str:
    return dispatch.routing_key.partition(".")[0]

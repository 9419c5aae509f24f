"""Publishing what the scheduler has to say; the queue of a dispatch is made where it is missing."""

from collections.abc import Iterable

from warrener_contracts.letters import Letter, gathered
from warrener_contracts.topology import DISPATCH, Topology, dispatch_queue
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import Unroutable, publish_all

_log = get_logger("publishing")


async def publish(bus: Bus, letters: Iterable[Letter], clock: Clock) -> None:
    """Return once the broker has confirmed all of these, in as few messages as they fit.

    A dispatch waits for its agent even if no agent has served its queue yet: the queue is declared.
    """
    unique = gathered({letter.message_id: letter for letter in letters}.values())
    if not unique:
        return
    try:
        await publish_all(bus, unique, clock=clock)
    except Unroutable as stray:
        strays = {letter.message_id for letter in stray.letters}
        homeless = [letter for letter in unique if letter.message_id in strays]
        await declare_queues(bus, (_queue_of(letter) for letter in homeless if letter.exchange == DISPATCH))
        await publish_all(bus, homeless, clock=clock)


async def declare_queues(bus: Bus, queues: Iterable[str]) -> None:
    """Make these dispatch queues exist."""
    names = sorted(set(queues))
    await bus.declare(Topology((), tuple(dispatch_queue(name) for name in names)))
    _log.info("Dispatch queues were declared.", action="publishing.declared", queues=names)


def _queue_of(dispatch: Letter) -> str:
    return dispatch.routing_key.partition(".")[0]

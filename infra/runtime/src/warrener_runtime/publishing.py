"""Publishing that does not give up: what must reach the broker is sent until the broker has it."""

from collections.abc import Sequence

from warrener_runtime.bus.port import Bus, BusError, Fate, Outgoing
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_PAUSE_DOUBLINGS = 7


class Unroutable(BusError):
    """Nobody is bound for these messages; all others of the call are confirmed."""

    def __init__(self, letters: Sequence[Outgoing]) -> None:
        keys = sorted({f"{letter.exchange}:{letter.routing_key}" for letter in letters})
        super().__init__(
            f"expected a queue bound for {', '.join(keys)}, got none;"
            " declare it, or start the service that consumes it"
        )
        self.letters = tuple(letters)


async def publish_all(bus: Bus, letters: Sequence[Outgoing], *, clock: Clock) -> None:
    """Publish until every letter is confirmed.

    What was refused or has an uncertain fate is published again, with a back-off and under the same message
    id, for as long as it takes; cancel the call to give up. Returns when the broker has all of them. Raises
    Unroutable for those that no queue is bound for, once all the others are confirmed.
    """
    open_letters = list(letters)
    unroutable: list[Outgoing] = []
    rounds = 0
    while open_letters:
        fates = await bus.publish(open_letters)
        told = list(zip(open_letters, fates, strict=True))
        unroutable += [letter for letter, fate in told if fate is Fate.UNROUTABLE]
        open_letters = [letter for letter, fate in told if fate in {Fate.REFUSED, Fate.UNKNOWN}]
        if open_letters:
            await _back_off(len(open_letters), rounds, clock)
            rounds += 1
    if unroutable:
        raise Unroutable(unroutable)


async def _back_off(count: int, rounds: int, clock: Clock) -> None:
    pause = min(_FIRST_PAUSE * 2 ** min(rounds, _PAUSE_DOUBLINGS), _LONGEST_PAUSE)
    _log.warning(
        "The broker refused or did not confirm some messages; they are published again. If this lasts,"
        " look at the broker: full queues, an alarm, or no connection.",
        action="publishing.again",
        messages=count,
        round=rounds + 1,
        pause=pause,
    )
    await clock.sleep(pause)

"""Publishing that does not give up: what must reach the broker is sent until the broker has it."""

from collections.abc import Callable, Sequence

from warrener_runtime.bus.port import Bus, BusError, BusUnreachable, Fate, Outgoing
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_PAUSE_DOUBLINGS = 7
_LATER_TIMEOUT = 3.0  # seconds for the confirms of what may be left and has been published before


class Unroutable(BusError):
    """Nobody is bound for these messages; all others of the call are confirmed, or left."""

    def __init__(self, letters: Sequence[Outgoing], left: Sequence[Outgoing] = ()) -> None:
        keys = sorted({f"{letter.exchange}:{letter.routing_key}" for letter in letters})
        super().__init__(
            f"expected a queue bound for {', '.join(keys)}, got none;"
            " declare it, or start the service that consumes it"
        )
        self.letters = tuple(letters)
        self.left = tuple(left)  # by `publish_or_leave`


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


async def publish_or_leave(
    bus: Bus, letters: Sequence[Outgoing], *, clock: Clock, may_leave: Callable[[Outgoing], bool]
) -> list[Outgoing]:
    """Publish until every letter is confirmed or left; return those that were left.

    A full or ill queue must not hold up messages to others. So a letter that `may_leave` is left once its
    queue refuses it, or has not confirmed it twice although the broker answers. The others, and all of them
    while the broker does not answer, are published again as by `publish_all`. Raises Unroutable.
    """
    open_letters, left, unroutable = list(letters), list[Outgoing](), list[Outgoing]()
    rounds = 0
    while open_letters:
        sent = bus.publish(open_letters, timeout=_LATER_TIMEOUT) if rounds else bus.publish(open_letters)
        fates = await sent
        by_fate: dict[Fate, list[Outgoing]] = {fate: [] for fate in Fate}
        for letter, fate in zip(open_letters, fates, strict=True):
            by_fate[fate].append(letter)
        unroutable += by_fate[Fate.UNROUTABLE]
        refused, doubtful = by_fate[Fate.REFUSED], by_fate[Fate.UNKNOWN]
        given_up = [*refused, *(doubtful if rounds and doubtful and await _answers(bus) else ())]
        left += filter(may_leave, given_up)
        # In their order: a letter is in one of the two.
        gone = set(map(id, left))
        open_letters = [letter for letter in (*refused, *doubtful) if id(letter) not in gone]
        if open_letters:
            await _back_off(len(open_letters), rounds, clock)
            rounds += 1
    if left:
        _log.warning(
            "Queues did not take some messages; these are left to a later publish."
            " Look at the queues: full, or without a quorum.",
            action="publishing.left",
            messages=len(left),
            routing_keys=sorted({letter.routing_key for letter in left})[:10],
        )
    if unroutable:
        raise Unroutable(unroutable, left)
    return left


async def _answers(bus: Bus) -> bool:
    """True if the broker itself answers, so that a missing confirm is a matter of its queue."""
    try:
        await bus.ping()
    except BusUnreachable:
        return False
    return True


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

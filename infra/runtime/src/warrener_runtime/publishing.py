"""Publishing with retries, until the broker has every message."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warrener_runtime.bus.port import Bus, BusError, BusUnreachable
from warrener_runtime.bus.types import ExchangeSpec, OutgoingMessage, PublishResult, QueueSpec
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_PAUSE_DOUBLINGS = 7
_LATER_TIMEOUT = 3.0  # seconds for the confirms of a repeated publish


class UnroutableMessages(BusError):
    """No queue is bound for these messages; all others of the call are confirmed or deferred."""

    def __init__(self, messages: Sequence[OutgoingMessage], deferred: Sequence[OutgoingMessage] = ()) -> None:
        keys = sorted({f"{message.exchange}:{message.routing_key}" for message in messages})
        super().__init__(
            f"expected a queue bound for {', '.join(keys)}, got none;"
            " declare it, or start the service that consumes it"
        )
        self.messages = tuple(messages)
        self.deferred = tuple(deferred)  # by `publish_or_defer`


async def publish_all(bus: Bus, messages: Sequence[OutgoingMessage], *, clock: Clock) -> None:
    """Publish until every message is confirmed.

    Messages with a result of REFUSED or UNKNOWN are published again, with a back-off and under the same id,
    without a limit of time; cancel the call to give up. Raises UnroutableMessages for those without a bound
    queue, once all others are confirmed.
    """
    unconfirmed = list(messages)
    unroutable: list[OutgoingMessage] = []
    rounds = 0
    while unconfirmed:
        results = await bus.publish(unconfirmed)
        outcomes = list(zip(unconfirmed, results, strict=True))
        unroutable += [message for message, result in outcomes if result is PublishResult.UNROUTABLE]
        unconfirmed = [
            message
            for message, result in outcomes
            if result in {PublishResult.REFUSED, PublishResult.UNKNOWN}
        ]
        if unconfirmed:
            await _back_off(len(unconfirmed), rounds, clock)
            rounds += 1
    if unroutable:
        raise UnroutableMessages(unroutable)


async def publish_or_defer(
    bus: Bus,
    messages: Sequence[OutgoingMessage],
    *,
    clock: Clock,
    may_defer: Callable[[OutgoingMessage], bool],
) -> list[OutgoingMessage]:
    """Publish until every message is confirmed or deferred; return the deferred ones.

    A full or broken queue must not delay messages to others. So a message that `may_defer` is deferred once
    its queue refuses it, or has not confirmed it twice although the broker answers. The others, and all of
    them while the broker does not answer, are published again as by `publish_all`. Raises UnroutableMessages.
    """
    unconfirmed, deferred, unroutable = list(messages), list[OutgoingMessage](), list[OutgoingMessage]()
    rounds = 0
    while unconfirmed:
        sent = bus.publish(unconfirmed, timeout=_LATER_TIMEOUT) if rounds else bus.publish(unconfirmed)
        results = await sent
        by_result: dict[PublishResult, list[OutgoingMessage]] = {result: [] for result in PublishResult}
        for message, result in zip(unconfirmed, results, strict=True):
            by_result[result].append(message)
        unroutable += by_result[PublishResult.UNROUTABLE]
        refused, uncertain = by_result[PublishResult.REFUSED], by_result[PublishResult.UNKNOWN]
        given_up = [*refused, *(uncertain if rounds and uncertain and await _answers(bus) else ())]
        deferred += filter(may_defer, given_up)
        # In their order: a message is in one of the two.
        gone = set(map(id, deferred))
        unconfirmed = [message for message in (*refused, *uncertain) if id(message) not in gone]
        if unconfirmed:
            await _back_off(len(unconfirmed), rounds, clock)
            rounds += 1
    if deferred:
        _log.warning(
            "Queues did not take some messages, which were deferred to a later publish."
            " Look at the queues: full, or without a quorum.",
            action="publishing.deferred",
            messages=len(deferred),
            routing_keys=sorted({message.routing_key for message in deferred})[:10],
        )
    if unroutable:
        raise UnroutableMessages(unroutable, deferred)
    return deferred


@dataclass(frozen=True, slots=True)
class _MissingQueues:
    """Queues to declare; their exchanges exist."""

    queues: Sequence[QueueSpec]
    exchanges: Sequence[ExchangeSpec] = ()


async def publish_declaring(
    bus: Bus,
    messages: Sequence[OutgoingMessage],
    *,
    clock: Clock,
    may_defer: Callable[[OutgoingMessage], bool],
    missing_queue: Callable[[OutgoingMessage], QueueSpec | None],
) -> list[OutgoingMessage]:
    """Publish as `publish_or_defer` does; declare missing queues and publish their messages again.

    `missing_queue` names the queue of a message that the broker returned. Raises UnroutableMessages if it
    knows none, or if the broker returns a message twice.
    """
    try:
        return await publish_or_defer(bus, messages, clock=clock, may_defer=may_defer)
    except UnroutableMessages as unroutable:
        found = [queue for message in unroutable.messages if (queue := missing_queue(message)) is not None]
        if not found:
            raise
        returned, deferred = unroutable.messages, unroutable.deferred
    queues = {queue.name: queue for queue in found}
    await bus.declare(_MissingQueues(tuple(queues.values())))
    _log.info("Missing queues were declared.", action="publishing.declared", queues=sorted(queues))
    again = await publish_or_defer(bus, returned, clock=clock, may_defer=may_defer)
    return [*deferred, *again]


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
        action="publishing.retried",
        messages=count,
        round=rounds + 1,
        pause=pause,
    )
    await clock.sleep(pause)

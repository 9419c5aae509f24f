"""The outbox: publish, declare what is missing, await the confirms, until the broker has every message."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.bus.port import Bus, BusError, BusUnreachable, TopologyMismatch
from warrener_runtime.bus.types import OutgoingMessage, PublishResult, TopologySpec
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)
M = TypeVar("M", bound=OutgoingMessage)

_FIRST_PAUSE, _MAX_PAUSE = 0.05, 5.0
_MAX_REFUSED = 5  # declarations of one call: each costs a channel, and others wait for it
_LATER_TIMEOUT = 3.0  # seconds for the confirms of a repeated publish whose messages may be deferred


class UnroutableMessages(BusError):
    """No queue is bound for these messages; all others of the call are confirmed or deferred."""

    def __init__(
        self,
        messages: Sequence[OutgoingMessage],
        deferred: Sequence[OutgoingMessage] = (),
        why: TopologyMismatch | None = None,
    ) -> None:
        """`why`: the error of declaring the queue, if that was tried and failed."""
        keys = sorted({f"{message.exchange}:{message.routing_key}" for message in messages})
        super().__init__(
            f"expected a queue bound for {', '.join(keys)}, got none;"
            f" {why or 'declare it, or start the service that consumes it'}"
        )
        self.messages, self.why = tuple(messages), why
        self.deferred = tuple(deferred)


async def publish_all(
    bus: Bus,
    messages: Sequence[M],
    *,
    clock: Clock,
    may_defer: Callable[[M], bool] | None = None,
    missing: Callable[[M], TopologySpec | None] | None = None,
) -> list[M]:
    """Publish until every message is confirmed or deferred; return the deferred ones.

    Messages with a result of REFUSED or UNKNOWN are published again, with a back-off and under the same id,
    without a limit of time; cancel the call to give up.

    - `may_defer`: True for a message that its caller publishes later. A full or broken queue must not delay
      messages to others, so such a message is deferred once its queue refuses it or may not be declared, or
      has not confirmed it twice although the broker answers.
    - `missing`: the exchanges and queues that a returned message needs. They are declared, and the message is
      published again.

    Raises UnroutableMessages for other messages that are returned twice, or that `missing` does not know.
    """
    pending, deferred, unroutable = messages, list[M](), list[M]()
    declared_for = list[M]()
    why: TopologyMismatch | None = None
    backoff = ExponentialBackoff(_FIRST_PAUSE, _MAX_PAUSE)
    while pending:
        is_later = backoff.failures and may_defer is not None
        results = await (bus.publish(pending, timeout=_LATER_TIMEOUT) if is_later else bus.publish(pending))
        if results.count(PublishResult.CONFIRMED) == len(results):  # as most are
            break
        by_result: dict[PublishResult, list[M]] = {result: [] for result in PublishResult}
        for message, result in zip(pending, results, strict=True):
            by_result[result].append(message)
        returned, refused = by_result[PublishResult.UNROUTABLE], by_result[PublishResult.REFUSED]
        uncertain = by_result[PublishResult.UNKNOWN] if is_later else []
        again = list[M]()
        if missing is not None and returned:
            fresh = _without(declared_for, returned)
            left_for_later = [message for message in fresh if may_defer is not None and may_defer(message)]
            again, refusal = await _declare(bus, [*_without(left_for_later, fresh), *left_for_later], missing)
            why = refusal or why
        declared_for += again
        lost = _without(again, returned)
        given_up = [*lost, *refused, *(uncertain if uncertain and await _answers(bus) else ())]
        left = [message for message in given_up if may_defer(message)] if may_defer is not None else []
        lost = _without(left, lost)
        unroutable += lost
        deferred += left
        pending = _without([*by_result[PublishResult.CONFIRMED], *lost, *left], pending)
        if len(pending) > len(again):
            await _back_off(len(pending) - len(again), backoff, clock)
    if deferred:
        _log.warning(
            "Queues did not take some messages, which were deferred to a later publish."
            " Look at the queues: full, without a quorum, or missing.",
            action="publishing.deferred",
            messages=len(deferred),
            routing_keys=sorted({message.routing_key for message in deferred})[:10],
        )
    if unroutable:
        raise UnroutableMessages(unroutable, deferred, why)
    return deferred


def _without(gone: Sequence[M], messages: Sequence[M]) -> list[M]:
    """Return the other messages, in their order."""
    ids = set(map(id, gone))
    return [message for message in messages if id(message) not in ids]


async def _declare(
    bus: Bus, returned: Sequence[M], missing: Callable[[M], TopologySpec | None]
) -> tuple[list[M], TopologyMismatch | None]:
    """Declare what returned messages need; return those for which that succeeded, and the last error."""
    needed = [(message, missing(message)) for message in returned]
    topologies: list[TopologySpec] = []
    for _, topology in needed:
        if topology is not None and topology not in topologies:
            topologies.append(topology)
    declared, why, refused = list[TopologySpec](), None, 0
    for topology in topologies:
        if refused == _MAX_REFUSED:
            break
        queues = sorted(queue.name for queue in topology.queues)
        try:
            await bus.declare(topology, verify=True)  # it may exist without a binding
        except TopologyMismatch as error:
            why = error
            refused += 1
            _log.error(
                "Missing queues could not be declared.",
                action="publishing.not_declared",
                queues=queues,
                error=str(error),
            )
        else:
            _log.info("Missing queues were declared.", action="publishing.declared", queues=queues)
            declared.append(topology)
    return [message for message, topology in needed if topology in declared], why


async def _answers(bus: Bus) -> bool:
    """True if the broker itself answers, so that a missing confirm is a matter of its queue."""
    try:
        await bus.ping()
    except BusUnreachable:
        return False
    return True


async def _back_off(count: int, backoff: ExponentialBackoff, clock: Clock) -> None:
    pause = backoff.failed()
    _log.warning(
        "The broker refused or did not confirm some messages; they are published again. If this lasts,"
        " look at the broker: full queues, an alarm, or no connection.",
        action="publishing.retried",
        messages=count,
        round=backoff.failures,
        pause=pause,
    )
    await clock.sleep(pause)

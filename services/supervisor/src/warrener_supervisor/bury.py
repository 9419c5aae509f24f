"""bury: what was dead-lettered, parked or unroutable is kept in the store with its reason. Nothing is
dropped. What found no status queue or no delay queue is published again; a dispatch that the broker gave up
becomes a lost attempt."""

from collections.abc import Mapping, Sequence

from warrener_contracts.letters import letter_for
from warrener_contracts.topology import Queue, Topology
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import publish_all
from warrener_store.port import StateStore
from warrener_supervisor import act
from warrener_supervisor.astray import missing_queue, sent_again
from warrener_supervisor.burial import burial, lost_dispatches

_log = get_logger("bury")


class Bury:
    """The verb that empties the queues behind which there is nothing."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Keep one batch. A dispatch that the broker gave up is told to the judge, so that its job goes
        on."""
        # In this order: a batch is tried again until the store answers, and what is kept twice is kept once,
        # but what is sent again each time would be as many messages.
        needed = [(delivery, missing_queue(delivery)) for delivery in deliveries]
        if rest := [delivery for delivery, queue in needed if queue is None]:
            await self._bury(rest)
            await subscription.ack(rest)
        if queues := {queue.name: queue for _, queue in needed if queue is not None}:
            astray = [delivery for delivery, queue in needed if queue is not None]
            await self._send_again(astray, queues)
            await subscription.ack(astray)

    async def _send_again(self, astray: Sequence[Delivery], queues: Mapping[str, Queue]) -> None:
        """Declare first: what is published again finds its queue, and does not come back here."""
        await self._bus.declare(Topology((), tuple(queues.values())))
        await publish_all(self._bus, [sent_again(delivery) for delivery in astray], clock=self._clock)
        _log.warning(
            "Messages came while their queues were gone: declared, and published again.",
            action="bury.sent_again",
            messages=len(astray),
            queues=sorted(queues),
        )

    async def _bury(self, deliveries: list[Delivery]) -> None:
        """Park what no service can use. A dispatch is not parked: the supervisor judges its attempt, and the
        job's row has all that the message said."""
        now = self._clock.now()
        lost = [lost_dispatches(delivery, now) for delivery in deliveries]
        buried = [burial(delivery, now) for delivery, of in zip(deliveries, lost, strict=True) if of is None]
        if given_up := [event for of in lost if of is not None for event in of]:
            await act.publish(self._bus, [letter_for(event) for event in given_up], self._clock)
            _log.warning(
                "The broker gave up dispatches; the supervisor decides about their attempts.",
                action="bury.dispatches",
                attempts=len(given_up),
            )
        if not buried:
            return
        await self._store.park(buried)
        _log.warning(
            "Messages were buried; `warrener parked` shows them.",
            action="bury.parked",
            messages=len(buried),
            reasons=sorted({message.reason for message in buried}),
        )

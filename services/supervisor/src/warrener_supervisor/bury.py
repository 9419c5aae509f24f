"""bury: what was dead-lettered, parked or unroutable is kept in the store with its reason. Nothing is
dropped. What was meant for the supervisor, while its queue was gone, is sent on its way again; a dispatch
that the broker gave up becomes a lost attempt."""

from warrener_contracts.letters import letter_for
from warrener_contracts.topology import STATUS_QUEUE, Topology
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import publish_all
from warrener_store.port import StateStore
from warrener_supervisor import act
from warrener_supervisor.astray import is_astray, sent_again
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
        if rest := [delivery for delivery in deliveries if not is_astray(delivery)]:
            await self._bury(rest)
            await subscription.ack(rest)
        if astray := [delivery for delivery in deliveries if is_astray(delivery)]:
            await self._send_again(astray)
            await subscription.ack(astray)

    async def _send_again(self, astray: list[Delivery]) -> None:
        await self._bus.declare(Topology((), (STATUS_QUEUE,)))
        await publish_all(self._bus, [sent_again(delivery) for delivery in astray], clock=self._clock)
        _log.warning(
            "News of attempts came while the supervisor's queue was gone: published again.",
            action="bury.sent_again",
            messages=len(astray),
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

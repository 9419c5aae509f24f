"""bury: what was dead-lettered, parked or unroutable is kept in the store with its reason. Nothing is
dropped. What found no status queue or no delay queue is published again, and so is a dispatch that the broker
gave up because it was returned too often."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from warrener_contracts.topology import MAX_EVENTS, Queue, Topology
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import publish_all
from warrener_store.port import StateStore
from warrener_supervisor import effects
from warrener_supervisor.dead_letter_parser import (
    GivenUp,
    given_up_dispatches,
    judge_given_up,
    to_parked_message,
)
from warrener_supervisor.misrouted import find_missing_queue, rebuild_message

_log = get_logger("bury")


class DeadLetterConsumer:
    """The verb that empties the queues behind which there is nothing."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock, *, max_events: int = MAX_EVENTS) -> None:
        self._max_events = max_events
        self._bus = bus
        self._store = store
        self._clock = clock

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Keep one batch. A dispatch that the broker gave up is told to the judge, so that its job goes
        on."""
        # In this order: a batch is tried again until the store answers, and what is kept twice is kept once,
        # but what is sent again each time would be as many messages.
        needed = [(delivery, find_missing_queue(delivery)) for delivery in deliveries]
        if rest := [delivery for delivery, queue in needed if queue is None]:
            await self._park(rest)
            await subscription.ack(rest)
        if queues := {queue.name: queue for _, queue in needed if queue is not None}:
            misrouted = [delivery for delivery, queue in needed if queue is not None]
            await self._republish(misrouted, queues)
            await subscription.ack(misrouted)

    async def _republish(self, misrouted: Sequence[Delivery], queues: Mapping[str, Queue]) -> None:
        """Declare first: what is published again finds its queue, and does not come back here."""
        await self._bus.declare(Topology((), tuple(queues.values())))
        await publish_all(self._bus, [rebuild_message(delivery) for delivery in misrouted], clock=self._clock)
        _log.warning(
            "Messages came while their queues were gone: declared, and published again.",
            action="bury.sent_again",
            messages=len(misrouted),
            queues=sorted(queues),
        )

    async def _park(self, deliveries: list[Delivery]) -> None:
        """Park what no service can use. A dispatch is not parked: the supervisor judges its attempt, and the
        job's row has all that the message said."""
        now = self._clock.now()
        found = [given_up_dispatches(delivery, self._max_events) for delivery in deliveries]
        parked = [
            to_parked_message(delivery, now)
            for delivery, of in zip(deliveries, found, strict=True)
            if of is None
        ]
        if given_up := [one for of in found if of is not None for one in of]:
            await self._judge(given_up, now)
        if not parked:
            return
        await self._store.park(parked)
        _log.warning(
            "Messages were buried; `warrener parked` shows them.",
            action="bury.parked",
            messages=len(parked),
            reasons=sorted({message.reason for message in parked}),
        )

    async def _judge(self, given_up: Sequence[GivenUp], now: datetime) -> None:
        """Dispatch again what still waits for an agent."""
        rows = await self._store.jobs_by_id({one.event.data.job_id for one in given_up})
        judged = [judge_given_up(one, rows.get(one.event.data.job_id), now) for one in given_up]
        messages = [message for message in judged if message is not None]
        refused = await effects.publish(self._bus, messages, self._clock)
        await effects.keep_unpublished(self._store, refused, self._clock)
        _log.warning(
            "The broker gave up dispatches; those whose jobs wait are dispatched again, or lost.",
            action="bury.dispatches",
            attempts=len(given_up),
            needed=len(messages),
        )

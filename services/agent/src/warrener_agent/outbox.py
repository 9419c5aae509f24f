"""outbox: what the agent publishes. Messages whose queue refuses them are published again later, beside all
other work."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from warrener_agent.receipts import Receipt, acknowledge
from warrener_agent.running import Run
from warrener_agent.workplace import Workplace
from warrener_contracts.messages import Message, batch_messages, batch_parked
from warrener_runtime.lifecycle import ManagedComponent, NotReady
from warrener_runtime.lifecycle.health_registry import HealthRegistry, current_health_registry
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import UnroutableMessages, publish_or_defer

_log = get_logger("agent.outbox")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 15.0
_NAMED_AFTER = 5.0
"""Seconds after which readiness names what refuses."""
_DRAIN_TIMEOUT = 5.0
"""Seconds that a drain waits for what is refused. Its deliveries stay unacknowledged: the broker delivers
them to another agent, which finds in the ledger what was recorded."""

Target = tuple[str, str]
"""An exchange and a routing key."""


class Shipment(NamedTuple):
    """Messages, and what is settled once the broker has them all: deliveries, and the slot of a run."""

    letters: Sequence[Message]
    receipts: Sequence[Receipt] = ()
    run: Run | None = None


class AgentOutbox(ManagedComponent):
    """Publishes and then acknowledges. What is refused holds its own deliveries and slots, and nothing else.

    What waits here is bounded by the slots and the prefetch: a shipment without a run is forgotten as soon as
    the broker has taken its delivery back.
    """

    def __init__(self, at: Workplace) -> None:
        super().__init__("outbox")
        self._at = at
        self._unsent: list[Shipment] = []
        self._refusing: set[Target] = set()
        self._since = 0.0  # monotonic; when the first of what is unsent was refused
        self._work: asyncio.Task[None] | None = None
        self._health_registry: HealthRegistry | None = None

    async def check(self) -> None:
        """Raise NotReady, naming the targets that have refused messages for some time."""
        if self._unsent and self._at.clock.monotonic() - self._since >= _NAMED_AFTER:
            targets = ", ".join(f"{exchange}:{key}" for exchange, key in sorted(self._refusing)[:5])
            raise NotReady(
                f"{len(self._unsent)} outcomes or messages wait to be published: {targets} takes none, as its"
                " queue is full, without a quorum or missing; their deliveries stay unacknowledged"
            )

    async def send(self, shipments: Sequence[Shipment]) -> bool:
        """Publish these in as few messages as they fit, and settle what the broker has; True if it has all.
        The others are published again later."""
        if self._refusing:
            kept = [one for one in shipments if self._is_refused(one)]
            self._keep(kept)
            shipments = [one for one in shipments if not self._is_refused(one)]
        else:
            kept = []
        refused = await self._publish(shipments)
        if not refused:
            await self._settle(shipments)
            return not kept
        self._refusing |= refused
        await self._settle([one for one in shipments if not self._is_refused(one)])
        self._keep([self._rest(one) for one in shipments if self._is_refused(one)])
        return False

    async def _on_start(self) -> None:
        self._health_registry = current_health_registry.get()
        if self._health_registry:
            self._health_registry.register(self.name, self.check)

    async def _on_drain(self) -> None:
        if self._work is None:
            return
        patience = asyncio.create_task(self._at.clock.sleep(_DRAIN_TIMEOUT), name="drain outbox")
        await asyncio.wait({self._work, patience}, return_when=asyncio.FIRST_COMPLETED)
        patience.cancel()
        if self._unsent:
            _log.warning(
                "The agent ends without having published everything: the deliveries go back to their queues.",
                action="agent.unsent",
                messages=len(self._unsent),
            )

    async def _on_stop(self) -> None:
        if self._health_registry:
            self._health_registry.unregister(self.name)
        self._unsent.clear()
        self._refusing.clear()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work}, timeout=1)

    async def _publish(self, shipments: Sequence[Shipment]) -> set[Target]:
        """Publish once; the targets that did not take everything."""
        letters = [*chain.from_iterable(one.letters for one in shipments)]
        if not letters:
            return set()
        together = batch_messages(batch_parked(letters))
        try:
            left = await publish_or_defer(
                self._at.bus, together, clock=self._at.clock, may_defer=lambda _: True
            )
        except UnroutableMessages as error:
            _log.error(
                "No queue is bound for what the agent sends; it is sent again. Is a scheduler running?",
                action="agent.unroutable",
                error=str(error),
            )
            left = [*error.messages, *error.deferred]
        return {(letter.exchange, letter.routing_key) for letter in left}

    def _is_refused(self, shipment: Shipment) -> bool:
        return any((letter.exchange, letter.routing_key) in self._refusing for letter in shipment.letters)

    def _rest(self, shipment: Shipment) -> Shipment:
        """What is left of a published shipment: the broker has all that no target refuses."""
        letters = [one for one in shipment.letters if (one.exchange, one.routing_key) in self._refusing]
        return shipment._replace(letters=letters)

    async def _settle(self, shipments: Iterable[Shipment]) -> None:
        receipts: list[Receipt] = []
        for one in shipments:
            for receipt in one.receipts:
                receipt.settle()
            receipts += one.receipts
            if one.run is not None:
                self._at.running.remove(one.run)  # first the slot: the next delivery comes with the ack
        await acknowledge(receipts)

    def _keep(self, shipments: Sequence[Shipment]) -> None:
        if not shipments:
            return
        for one in shipments:
            if one.run is not None:
                self._at.running.set_aside(one.run)
        if not self._unsent:
            self._since = self._at.clock.monotonic()
        self._unsent += shipments
        if self._work is None:
            self._work = asyncio.create_task(self._run(), name="messages that are published again")

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        try:
            while self._unsent:
                await self._at.clock.sleep(pause)
                try:
                    some = await self._again()
                except Exception:  # noqa: BLE001 - logged with its trace, as the lines below say
                    _log.exception("The agent itself failed at publishing.", action="agent.publish_failed")
                    some = False
                pause = _FIRST_PAUSE if some else min(pause * 2, _LONGEST_PAUSE)
        finally:
            self._work = None
            if not self._unsent:
                self._refusing.clear()

    async def _again(self) -> bool:
        """Publish again what is unsent; True if the broker took some of it."""
        self._unsent = [one for one in self._unsent if not _is_delivered_again(one)]
        tried = list(self._unsent)
        self._refusing = await self._publish(tried)
        kept_meanwhile = self._unsent[len(tried) :]
        sent = [one for one in tried if not self._is_refused(one)]
        self._unsent = [self._rest(one) for one in tried if self._is_refused(one)] + kept_meanwhile
        await self._settle(sent)
        if sent:
            self._since = self._at.clock.monotonic()
        return bool(sent)


def _is_delivered_again(shipment: Shipment) -> bool:
    """True if nothing here depends on it: the broker has taken its deliveries back."""
    receipts = shipment.receipts
    return (
        shipment.run is None
        and bool(receipts)
        and all(one.delivery.epoch != one.subscription.epoch for one in receipts)
    )

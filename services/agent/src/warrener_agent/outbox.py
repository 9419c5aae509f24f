"""The outbox: publish messages, then acknowledge. Refused messages are published again later."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from warrener_agent.agent_context import AgentContext
from warrener_agent.run_table import DeliveryRef, Run, ack_all
from warrener_contracts import outbox
from warrener_contracts.messages import Message, batch_messages, batch_parked
from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.bus.types import OutgoingMessage
from warrener_runtime.lifecycle import ManagedComponent, NotReady
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import UnroutableMessages, publish_all

_log = get_logger("agent.outbox")

_FIRST_PAUSE, _MAX_PAUSE = 0.1, 15.0
_NAMED_AFTER = 5.0  # seconds after which readiness names the refusing targets
_DRAIN_TIMEOUT = 5.0
"""Seconds that a drain waits for refused messages. Their deliveries stay unacknowledged: the broker delivers
them to another agent, which finds the outcomes in the ledger."""

Target = tuple[str, str]  # an exchange and a routing key


class OutboxEntry(NamedTuple):
    """Messages, and the deliveries and the slot of a run that are settled once the broker has them all.

    `then`: further messages, published only once the broker has the first ones."""

    messages: Sequence[Message]
    delivery_refs: Sequence[DeliveryRef] = ()
    run: Run | None = None
    then: Sequence[Message] = ()


class AgentOutbox(ManagedComponent):
    """Publishes and then acknowledges. A refused message holds its own deliveries and slots, and no others.

    The slots and the prefetch bound the entries that wait: an entry without a run is dropped as soon as the
    broker has taken its delivery back.
    """

    def __init__(self, agent: AgentContext) -> None:
        super().__init__("outbox", self.check)
        self._agent = agent
        self._unsent: list[OutboxEntry] = []
        self._refusing_targets: set[Target] = set()
        self._since = 0.0  # monotonic; when the first unsent entry was refused
        self._work: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raise NotReady, naming the targets that have refused messages for some time."""
        if self._unsent and self._agent.clock.monotonic() - self._since >= _NAMED_AFTER:
            targets = ", ".join(f"{exchange}:{key}" for exchange, key in sorted(self._refusing_targets)[:5])
            raise NotReady(
                f"{len(self._unsent)} outcomes or messages wait to be published: {targets} takes none, as its"
                " queue is full, without a quorum or missing; their deliveries stay unacknowledged"
            )

    async def send(self, entries: Sequence[OutboxEntry]) -> bool:
        """Publish these in as few messages as possible, and settle the entries that the broker has.

        True if the broker has all. The others are published again later.
        """
        retained: list[OutboxEntry] = []
        if self._refusing_targets:
            retained = [one for one in entries if self._is_refused(one)]
            self._retain(retained)
            entries = [one for one in entries if not self._is_refused(one)]
        refused = await self._publish(entries)
        if not refused:
            return await self._settle(entries) and not retained
        self._refusing_targets |= refused
        await self._settle([one for one in entries if not self._is_refused(one)])
        self._retain([self._unpublished_part(one) for one in entries if self._is_refused(one)])
        return False

    async def _on_drain(self) -> None:
        if self._work is None:
            return
        patience = asyncio.create_task(self._agent.clock.sleep(_DRAIN_TIMEOUT), name="drain outbox")
        await asyncio.wait({self._work, patience}, return_when=asyncio.FIRST_COMPLETED)
        patience.cancel()
        if self._unsent:
            _log.warning(
                "The agent ended before all messages were published: their deliveries go back to the queues.",
                action="agent.messages_unpublished",
                messages=len(self._unsent),
            )

    async def _on_stop(self) -> None:
        self._unsent.clear()
        self._refusing_targets.clear()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work}, timeout=1)

    async def _publish(self, entries: Sequence[OutboxEntry]) -> set[Target]:
        """Publish once; return the targets that refused a message."""
        messages = [*chain.from_iterable(one.messages for one in entries)]
        if not messages:
            return set()
        together = batch_messages(batch_parked(messages))
        try:
            left: Sequence[OutgoingMessage] = await publish_all(
                self._agent.bus,
                together,
                clock=self._agent.clock,
                may_defer=lambda _: True,
                missing=outbox.missing_topology,
            )
        except UnroutableMessages as error:
            _log.error(
                "No queue is bound for messages of this agent, even after its declaration; they are published"
                " again. Run `warrener topology --check`.",
                action="agent.unroutable",
                error=str(error),
            )
            left = [*error.messages, *error.deferred]
        return {(message.exchange, message.routing_key) for message in left}

    def _is_refused(self, entry: OutboxEntry) -> bool:
        return any(
            (message.exchange, message.routing_key) in self._refusing_targets for message in entry.messages
        )

    def _unpublished_part(self, entry: OutboxEntry) -> OutboxEntry:
        """Return what is left of a published entry: the broker has all that no target refused."""
        messages = [
            one for one in entry.messages if (one.exchange, one.routing_key) in self._refusing_targets
        ]
        return entry._replace(messages=messages)

    async def _settle(self, entries: Iterable[OutboxEntry]) -> bool:
        """Settle entries that the broker has; first publish what follows. True if the broker has that too."""
        delivery_refs: list[DeliveryRef] = []
        followed: list[OutboxEntry] = []
        for one in entries:
            if one.then:
                followed.append(one._replace(messages=one.then, then=()))
                continue
            for delivery_ref in one.delivery_refs:
                delivery_ref.complete_event()
            delivery_refs += one.delivery_refs
            if one.run is not None:
                self._agent.running.remove(one.run)  # the slot first: the next delivery comes with the ack
        await ack_all(delivery_refs)
        return not followed or await self.send(followed)

    def _retain(self, entries: Sequence[OutboxEntry]) -> None:
        if not entries:
            return
        for one in entries:
            if one.run is not None:
                self._agent.running.set_aside(one.run)
        if not self._unsent:
            self._since = self._agent.clock.monotonic()
        self._unsent += entries
        if self._work is None:
            self._work = asyncio.create_task(self._run(), name="messages that are published again")

    async def _run(self) -> None:
        backoff = ExponentialBackoff(_FIRST_PAUSE, _MAX_PAUSE)
        try:
            while self._unsent:
                await self._agent.clock.sleep(backoff.failed())
                try:
                    if await self._republish():
                        backoff.succeeded()
                except Exception:  # noqa: BLE001 - logged with its trace
                    _log.exception("The agent itself failed at publishing.", action="agent.publish_failed")
        finally:
            self._work = None
            if not self._unsent:
                self._refusing_targets.clear()

    async def _republish(self) -> bool:
        """Publish the unsent entries again; True if the broker took some."""
        # Without a run, an entry is dropped once the broker has taken its deliveries back: nothing needs it.
        self._unsent = [
            entry
            for entry in self._unsent
            if entry.run is not None
            or not entry.delivery_refs
            or any(one.delivery.epoch == one.subscription.epoch for one in entry.delivery_refs)
        ]
        tried = list(self._unsent)
        self._refusing_targets = await self._publish(tried)
        added_meanwhile = self._unsent[len(tried) :]
        sent = [one for one in tried if not self._is_refused(one)]
        self._unsent = [
            self._unpublished_part(one) for one in tried if self._is_refused(one)
        ] + added_meanwhile
        await self._settle(sent)
        if sent:
            self._since = self._agent.clock.monotonic()
        return bool(sent)

"""receive: batches of a dispatch queue, claimed in one statement; what is granted runs in tasks of its
own."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from warrener_agent.decide_receipt import (
    Park,
    Then,
    Way,
    claim_of,
    failed_before,
    read,
    recorded,
    then,
    way,
)
from warrener_agent.ledger.port import Claim, Granted
from warrener_agent.outcomes import Cancelled, Settled, Succeeded
from warrener_agent.perform import Performer
from warrener_agent.publish import publish_surely
from warrener_agent.receipts import Receipt, acknowledge
from warrener_agent.record import Report
from warrener_agent.report import Reporter
from warrener_agent.running import Run
from warrener_agent.workplace import Workplace
from warrener_contracts import topology
from warrener_contracts.codec import Readable, Unreadable, decode
from warrener_contracts.events import AttemptDispatched
from warrener_contracts.letters import (
    EVENT_TYPE,
    Letter,
    by_rung,
    delayed_letter,
    letter_for,
    parked_letter,
)
from warrener_runtime.bus.port import Delivery, Subscription
from warrener_runtime.lifecycle import Managed
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext

_log = get_logger("agent.receive")


@dataclass(slots=True)
class Batch:
    """What is to be done with one batch of deliveries."""

    letters: list[Letter] = field(default_factory=list[Letter])
    done: list[Receipt] = field(default_factory=list[Receipt])
    claims: dict[Claim, tuple[AttemptDispatched, list[Receipt]]] = field(
        default_factory=dict[Claim, tuple[AttemptDispatched, list[Receipt]]]
    )
    adopted: list[tuple[Run, Receipt]] = field(default_factory=list[tuple[Run, Receipt]])

    def send_away(self, letter: Letter, receipts: Sequence[Receipt]) -> None:
        """Somebody else keeps it from now on."""
        self.letters.append(letter)
        self.let_go(receipts)

    def let_go(self, receipts: Sequence[Receipt]) -> None:
        """The delivery is not needed once the letters are confirmed."""
        self.done += receipts


class Receiver(Managed):
    """The agent's side of the dispatch queues. Decides nothing: `decide_receipt` does."""

    def __init__(self, at: Workplace, performer: Performer, reporter: Reporter) -> None:
        super().__init__("receiver")
        self._at, self._performer, self._reporter = at, performer, reporter
        self._telling: set[asyncio.Task[Settled]] = set()

    async def _on_drain(self) -> None:
        if self._telling:
            await asyncio.wait(set(self._telling))

    async def _on_stop(self) -> None:
        for task in set(self._telling):
            task.cancel()
        await self._on_drain()

    async def handle(self, queue: str, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Take in one batch. Raises LedgerUnavailable with nothing done, and may then be called again."""
        asked, now = self._at.clock.monotonic(), self._at.clock.now()
        batch = self._sort(queue, subscription, deliveries, now)
        claims = list(batch.claims)
        if claims:
            granted = await self._at.ledger.claim(
                claims, agent_id=self._at.agent_id, now=now, until=now + self._at.lease
            )
            for claim, answer in zip(claims, granted, strict=True):
                self._follow(batch, claim, answer, now, asked)
        for run, receipt in batch.adopted:
            if self._at.running.get(run.claim) is run:
                run.receipts.append(receipt)
            else:  # it was reported while the ledger was asked about others
                batch.let_go([receipt])
        if batch.letters:
            await publish_surely(self._at, batch.letters)
        for receipt in batch.done:
            receipt.settle()
        await acknowledge(batch.done)

    def _sort(
        self, queue: str, subscription: Subscription, deliveries: list[Delivery], now: datetime
    ) -> Batch:
        batch, free = Batch(), self._at.running.free(queue)
        for delivery in deliveries:
            elements = decode(delivery.body, delivery.content_type)
            receipt = Receipt(subscription, delivery, len(elements), self._at.clock.monotonic())
            if not elements:
                batch.done.append(receipt)
            for element in elements:
                event = read(element)
                if isinstance(event, Park):
                    batch.send_away(self._park(queue, delivery, element, event), [receipt])
                elif claim_of(event) in batch.claims:  # a duplicate beside its twin shares its fate
                    batch.claims[claim_of(event)][1].append(receipt)
                else:
                    taken = len(batch.claims) >= free or self._at.restarts.holds(event.data.job_type)
                    self._place(batch, event, receipt, now, slot_free=not taken)
        return batch

    def _place(
        self, batch: Batch, event: AttemptDispatched, receipt: Receipt, now: datetime, *, slot_free: bool
    ) -> None:
        run = self._at.running.get(claim_of(event))
        match way(event, now, runs_here=run is not None, slot_free=slot_free):
            case Way.ADOPT:
                assert run is not None
                batch.adopted.append((run, receipt))
            case Way.DELAY:
                batch.send_away(delayed_letter(event, now), [receipt])
            case Way.NO_SLOT:
                batch.send_away(_back_by_a_rung(event), [receipt])
            case Way.CLAIM:
                batch.claims[claim_of(event)] = (event, [receipt])

    def _follow(self, batch: Batch, claim: Claim, answer: Granted, now: datetime, asked: float) -> None:
        event, receipts = batch.claims[claim]
        match then(answer):
            case Then.START:
                lease_good_until = asked + self._at.lease.total_seconds()
                context = TraceContext(event.traceparent, event.tracestate)
                self._performer.begin(Run(event, claim, receipts, now, asked, lease_good_until, context))
            case Then.TELL_AGAIN:
                self._tell(event, receipts, now, Succeeded(recorded(answer), recorded=True))
            case Then.TELL_FAILED:
                self._tell(event, receipts, now, failed_before(answer))
            case Then.TELL_CANCELLED:
                self._tell(event, receipts, now, Cancelled("cancelled before it began"))
            case Then.LOOK_AGAIN:
                batch.send_away(_back_by_a_rung(event), receipts)
            case Then.DROP:
                _log.info(
                    "A dispatched attempt is dropped: a later one was claimed.",
                    action="agent.superseded",
                    job_id=str(claim.job_id),
                    attempt=claim.attempt,
                )
                batch.let_go(receipts)

    def _tell(
        self, event: AttemptDispatched, receipts: list[Receipt], now: datetime, outcome: Settled
    ) -> None:
        context = TraceContext(event.traceparent, event.tracestate)
        report = Report(event.data, context, outcome, now, receipts)
        task = asyncio.create_task(self._reporter.submit(report))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def _park(self, queue: str, delivery: Delivery, found: Readable | Unreadable, park: Park) -> Letter:
        _log.error(
            "A message in a dispatch queue cannot be understood and is parked.",
            action="agent.parked",
            queue=queue,
            reason=park.reason.value,
            detail=park.detail,
        )
        return parked_letter(
            queue=topology.dispatch_queue(queue).name,
            body=found.body,
            reason=park.reason,
            detail=park.detail,
            message_id=found.identity,
            content_type=delivery.content_type if found.body == delivery.body else EVENT_TYPE,
        )


def _back_by_a_rung(event: AttemptDispatched) -> Letter:
    return by_rung(letter_for(event), topology.RUNGS[0])

"""receive: batches of a dispatch queue, claimed in one statement; what is granted runs in tasks of its
own."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from warrener_agent.decide_receipt import (
    Park,
    Then,
    Way,
    back_by,
    claim_of,
    dispatched,
    failed_before,
    newest,
    recorded,
    then,
    time_of_arrival,
    way,
)
from warrener_agent.ledger.port import Claim, Granted
from warrener_agent.outbox import AgentOutbox, Shipment
from warrener_agent.outcomes import Cancelled, Failed, Released, Settled, Succeeded
from warrener_agent.perform import Performer
from warrener_agent.receipts import Receipt, acknowledge
from warrener_agent.record import Report
from warrener_agent.report import Reporter
from warrener_agent.running import Run, Stop
from warrener_agent.status_events import Times
from warrener_agent.workplace import Workplace
from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import AttemptDispatched
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import (
    EVENT_TYPE,
    Message,
    delayed_by,
    build_delayed_message,
    build_message,
    build_parked_message,
)
from warrener_contracts.decode_failures import format_reason_counts
from warrener_runtime.bus.port import Delivery, Subscription
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext

_log = get_logger("agent.receive")

_SENT_BACK = "warrener-sent-back"
_SLOT_PATIENCE, _SLOT_LONGEST = 5, timedelta(seconds=15)
"""A slot may be free at any moment, so what waits for one is never kept away for long."""
_HELD_LONGEST = timedelta(minutes=1)
_LEASES_SPARE = 2  # seconds beyond a lease in which its holder may still turn out to have died


@dataclass(slots=True)
class Batch:
    """What is to be done with one batch of deliveries."""

    now: datetime
    asked: float  # monotonic; the same moment
    away: list[Shipment] = field(default_factory=list[Shipment])
    done: list[Receipt] = field(default_factory=list[Receipt])
    claims: dict[Claim, tuple[AttemptDispatched, list[Receipt]]] = field(
        default_factory=dict[Claim, tuple[AttemptDispatched, list[Receipt]]]
    )
    adopted: list[tuple[Run, Receipt]] = field(default_factory=list[tuple[Run, Receipt]])
    parked: list[Park] = field(default_factory=list[Park])

    def send_away(self, letter: Message, receipts: Sequence[Receipt]) -> None:
        """Somebody else keeps it from now on."""
        self.away.append(Shipment([letter], receipts))

    def let_go(self, receipts: Sequence[Receipt]) -> None:
        """The delivery is not needed any more."""
        self.done += receipts


class Receiver:
    """The agent's side of the dispatch queues. Decides nothing: `decide_receipt` does."""

    def __init__(self, at: Workplace, performer: Performer, reporter: Reporter, outbox: AgentOutbox) -> None:
        self._at, self._performer, self._reporter, self._outbox = at, performer, reporter, outbox
        # Within a lease its holder may have died, and then the message is how the attempt goes on, a second
        # later. After it the holder lives, or the supervisor gives the job a new attempt.
        self._patience = ceil(at.settings.agent_lease) + _LEASES_SPARE

    async def handle(self, queue: str, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Take in one batch. Raises LedgerUnavailable with nothing done, and may then be called again."""
        read = await decode_all(deliveries, max_events=self._at.settings.batch_limit)
        batch = Batch(self._at.clock.now(), self._at.clock.monotonic())
        self._sort(batch, queue, subscription, read)
        if batch.parked:
            _say_parked(queue, batch.parked)
        if batch.claims:
            await self._claim(batch)
        for run, receipt in batch.adopted:
            if self._at.running.get(run.claim) is run:
                run.receipts.append(receipt)
            else:  # it was reported while the ledger was asked about others
                batch.let_go([receipt])
        if batch.away:
            await self._outbox.send(batch.away)
        if batch.done:
            for receipt in batch.done:
                receipt.settle()
            await acknowledge(batch.done)

    def _sort(
        self,
        batch: Batch,
        queue: str,
        subscription: Subscription,
        read: Sequence[tuple[Delivery, Sequence[DecodedEvent | DecodeFailure]]],
    ) -> None:
        claims, free = batch.claims, self._at.running.free(queue)
        for delivery, elements in read:
            receipt = Receipt(subscription, delivery, queue, len(elements), batch.asked)
            if not elements:
                batch.done.append(receipt)
            before = len(claims)
            for element in elements:
                event = dispatched(element)
                if isinstance(event, Park):
                    batch.parked.append(event)
                    batch.send_away(_parked(queue, element, event), [receipt])
                    continue
                claim = claim_of(event)
                if (twin := claims.get(claim)) is not None:  # a duplicate shares its fate
                    twin[1].append(receipt)
                else:
                    taken = free <= 0 or self._at.restarts.holds(event.data.job_type)
                    self._place(batch, event, claim, receipt, slot_free=not taken)
            free -= len(claims) > before  # those of one delivery share a slot

    def _place(
        self, batch: Batch, event: AttemptDispatched, claim: Claim, receipt: Receipt, *, slot_free: bool
    ) -> None:
        run, apart = self._at.running.get(claim), receipt.shared_before
        if (before := self._at.running.before(claim)) is not None:
            if before.even_awaited and not before.over:  # a loss that was none: this one waits for its end
                batch.send_away(_sent_back(event, [receipt], self._patience, _HELD_LONGEST), [receipt])
                return
            before.ask_to_stop(Stop.FENCED, f"attempt {claim.attempt} was dispatched")
            batch.send_away(delayed_by(build_message(event), topology.DELAY_LEVELS[0]), [receipt])  # until that has ended
            return
        # What may have been begun before is claimed all the same: the ledger knows whether it runs elsewhere.
        known = self._performer.knows(event.data.job_type) or _had_before(event, [receipt])
        now = time_of_arrival(event, batch.now, returned=receipt.delivery.exchange == topology.RETURN)
        match way(event, now, runs_here=run is not None, slot_free=slot_free, apart=apart, known=known):
            case Way.CLAIM:
                batch.claims[claim] = (event, [receipt])
            case Way.ADOPT:
                assert run is not None
                batch.adopted.append((run, receipt))
            case Way.DELAY:
                batch.send_away(build_delayed_message(event.model_copy(update={"time": now}), now), [receipt])
            case Way.UNKNOWN:
                batch.send_away(self._unknown(event, batch.now), [receipt])
            case Way.NO_SLOT:
                batch.send_away(_sent_back(event, [receipt], _SLOT_PATIENCE, _SLOT_LONGEST), [receipt])
            case Way.APART:  # it comes back alone, so once
                batch.send_away(delayed_by(build_message(event), topology.DELAY_LEVELS[0]), [receipt])

    def _unknown(self, event: AttemptDispatched, now: datetime) -> Message:
        """Tell the supervisor that another agent has to run it. Nothing was claimed, so nothing is
        recorded."""
        context = TraceContext(event.traceparent, event.tracestate)
        failed = Failed(self._performer.unknown(event.data))
        event_id = self._at.entropy.new_id()
        return build_message(self._at.speaker.ended(event_id, event.data, Times(now, now), context, failed))

    async def _claim(self, batch: Batch) -> None:
        lease = self._at.lease
        granted = await self._at.ledger.claim(list(batch.claims), agent_id=self._at.agent_id, lease=lease)
        lease_good_until = batch.asked + lease.total_seconds()
        for (claim, (event, receipts)), answer in zip(batch.claims.items(), granted, strict=True):
            if (follows := then(answer)) is not Then.START:
                self._turn_away(batch, claim, answer, follows)
            elif self._at.running.before(claim) is not None:  # begun while the ledger was asked
                self._turn_away(batch, claim, answer, Then.LOOK_AGAIN)
            elif why := self._at.gate.held(event, batch.asked):
                # Only now: what has ended already is told, and what another runs is left to it.
                self._tell(batch, claim, Released(f"held back: {why}"))
            else:
                context = TraceContext(event.traceparent, event.tracestate)
                run = Run(event.data, claim, receipts, batch.now, batch.asked, lease_good_until, context)
                run.taken_over = _had_before(event, receipts)
                if answer.checkpoint is not None or event.data.checkpoint is not None:
                    run.go_on_from(newest(answer.checkpoint, event.data.checkpoint))
                self._performer.begin(run)

    def _turn_away(self, batch: Batch, claim: Claim, answer: Granted, follows: Then) -> None:
        event, receipts = batch.claims[claim]
        match follows:
            case Then.START:
                raise ValueError("expected an answer that lets nothing start, got a granted claim")
            case Then.TELL_AGAIN:
                self._tell(batch, claim, Succeeded(recorded(answer), recorded=True))
            case Then.TELL_FAILED:
                self._tell(batch, claim, failed_before(answer))
            case Then.TELL_CANCELLED:
                self._tell(batch, claim, Cancelled("cancelled before it began"))
            case Then.LOOK_AGAIN:
                batch.send_away(_sent_back(event, receipts, self._patience, _HELD_LONGEST), receipts)
            case Then.DROP:
                _log.info(
                    "A dispatched attempt is dropped: a later one was claimed.",
                    action="agent.superseded",
                    job_id=str(claim.job_id),
                    attempt=claim.attempt,
                )
                batch.let_go(receipts)

    def _tell(self, batch: Batch, claim: Claim, outcome: Settled) -> None:
        event, receipts = batch.claims[claim]
        context = TraceContext(event.traceparent, event.tracestate)
        self._reporter.hand_in(Report(event.data, context, outcome, batch.now, receipts))


def _say_parked(queue: str, parked: Sequence[Park]) -> None:
    _log.error(
        "Messages in a dispatch queue cannot be understood and are parked.",
        action="agent.parked",
        queue=queue,
        messages=len(parked),
        reasons=format_reason_counts(Counter(park.reason for park in parked)),
        detail=parked[0].detail,
    )


def _parked(queue: str, found: DecodedEvent | DecodeFailure, park: Park) -> Message:
    return build_parked_message(
        queue=topology.dispatch_queue(queue).name,
        body=found.body,
        reason=park.reason,
        detail=park.detail,
        message_id=found.identity,
        content_type=found.content_type if isinstance(found, DecodeFailure) else EVENT_TYPE,
    )


def _had_before(event: AttemptDispatched, receipts: Sequence[Receipt]) -> bool:
    """Whether an agent may have begun it before: its message was given out before, or has waited on a rung
    until another's claim had run out."""
    return any(
        delivery.redelivered or (delivery.exchange == topology.RETURN and event.data.not_before is None)
        for delivery in (receipt.delivery for receipt in receipts)
    )


def _sent_back(
    event: AttemptDispatched, receipts: Sequence[Receipt], patience: int, longest: timedelta
) -> Message:
    """The same attempt again, later each time: how often it was sent back stands in the message's header."""
    told = [receipt.delivery.headers.get(_SENT_BACK) for receipt in receipts]
    returned = max(int(text) if isinstance(text, str) and text.isdecimal() else 0 for text in told)
    letter = delayed_by(build_message(event), back_by(returned, patience, longest))
    return letter._replace(headers={**letter.headers, _SENT_BACK: str(returned + 1)})

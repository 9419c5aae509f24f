"""Receive batches of a dispatch queue: claim them in one statement, and begin what is granted."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from uuid import NAMESPACE_OID, uuid5

from warrener_agent.agent_context import AgentContext
from warrener_agent.attempt import AttemptRunner
from warrener_agent.decisions import intake, outcomes
from warrener_agent.ledger.port import Claim, ClaimResult, ClaimStatus, LedgerUnavailable
from warrener_agent.outbox import AgentOutbox, OutboxEntry
from warrener_agent.report import AttemptReport, Reporter
from warrener_agent.run_table import DeliveryRef, Run, ack_all
from warrener_agent.start_gate import StartGate
from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, DecodeFailure, format_reason_counts
from warrener_contracts.events import AttemptDispatched
from warrener_contracts.inbox import Inbox, ParkedEvent
from warrener_contracts.messages import Message, build_delayed_message, build_message, delayed_by
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.lifecycle.crashed_readers import is_suspect
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext

_log = get_logger("agent.receive")

_SENT_BACK, _AVOIDED = "warrener-sent-back", "warrener-avoided"
_SLOT_SHORT_RETRIES, _MAX_SLOT_DELAY = 5, timedelta(seconds=15)
"""A slot may be free at any moment, so an attempt that waits for one is never delayed for long."""
_MAX_RETURNS_AVOIDED, _MAX_AVOIDED_DELAY = 10, timedelta(seconds=5)
"""An agent gives an attempt that is to avoid it back so often, within about 30 s, and then runs it."""
_MAX_HELD_DELAY = timedelta(minutes=1)
_GIVE_WAY_TIME = 0.5
"""Seconds in which an agent that is cut off stops an attempt for which a later one waits: it looks every
twentieth of its lease (`LeaseKeeper.give_way`). The shortest delay level takes twice as long."""
_READING_INTERVAL = 1.0  # seconds between two looks at the claimed reading of a process that has died
_LEASE_TOLERANCE = 2  # seconds beyond a lease in which its holder may still turn out to have died


Claims = dict[Claim, tuple[AttemptDispatched, list[DeliveryRef]]]
"""Claims with the dispatched attempt and the deliveries that brought it."""


@dataclass(slots=True)
class Batch:
    """The decisions about one batch of deliveries, to be carried out together."""

    now: datetime
    received_at: float  # monotonic; the same moment
    outgoing: list[OutboxEntry] = field(default_factory=list[OutboxEntry])
    done: list[DeliveryRef] = field(default_factory=list[DeliveryRef])  # acknowledged: nothing needs them
    claims: Claims = field(default_factory=Claims)
    adopted: list[tuple[Run, DeliveryRef]] = field(default_factory=list[tuple[Run, DeliveryRef]])
    parked: list[DecodeFailure] = field(default_factory=list[DecodeFailure])
    awaited: Claims = field(default_factory=Claims)
    """Claims that are tried once more, without a delay level."""
    is_second_try: bool = False

    def forward(self, message: Message, delivery_refs: Sequence[DeliveryRef]) -> None:
        """Publish `message`, then acknowledge the deliveries."""
        self.outgoing.append(OutboxEntry([message], delivery_refs))


class SuspectReadings(ManagedComponent):
    """Claims the readings of messages that were returned often, and finds those that ended their reader.

    A message may end its agent before its attempt is claimed, so no claim shows that. A count of returns is
    no evidence: lost connections return messages too. A claimed reading whose holder has died is evidence.
    """

    def __init__(self, agent: AgentContext) -> None:
        super().__init__("suspect readings")
        self._agent = agent
        self._survived: set[Claim] = set()  # claimed as long as the ledger does not answer
        self._releasing = asyncio.Lock()  # of several queues: no release is under way when one claims again

    async def begin(self, queue: str, delivery: Delivery) -> bool:
        """Claim the reading; False if a process has died while it read the message."""
        await self.release()
        agent, claim = self._agent, _reading_of(queue, delivery)
        while True:
            now = agent.clock.now()
            failure = outcomes.failure_to_record(claim, outcomes.abandoned_outcome(), now, now)
            await agent.ledger.fail_abandoned([failure], agent_id=agent.holder_id)
            [answer] = await agent.ledger.claim([claim], agent_id=agent.holder_id, lease=agent.lease)
            if answer.status is not ClaimStatus.HELD:
                break
            await agent.clock.sleep(_READING_INTERVAL)  # until the lease of its holder, which has died, ends
        if answer.status is ClaimStatus.GRANTED:
            return True
        _log.error(
            "A dispatch was given up unread: the last process that read it ended. Its attempt is lost.",
            action="agent.gave_up_unread",
            queue=queue,
            message_id=delivery.message_id,
            routing_key=delivery.routing_key,
            returns=delivery.headers.get("x-delivery-count"),
        )
        return False

    def note_survived(self, queue: str, delivery: Delivery) -> None:
        """Note that the process has survived the reading, however it ended."""
        self._survived.add(_reading_of(queue, delivery))

    async def release(self) -> None:
        """Release all that was survived: none may be taken for a death. Raises LedgerUnavailable."""
        async with self._releasing:
            if survived := [*self._survived]:
                await self._agent.ledger.release(survived, agent_id=self._agent.holder_id)
                self._survived.difference_update(survived)

    async def _on_drain(self) -> None:
        with suppress(LedgerUnavailable):
            await self.release()


class Receiver:
    """Consumes the dispatch queues. `decisions.intake` decides; the receiver carries out."""

    def __init__(
        self,
        agent: AgentContext,
        attempt_runner: AttemptRunner,
        reporter: Reporter,
        outbox: AgentOutbox,
        start_gate: StartGate,
    ) -> None:
        self._agent, self._attempt_runner, self._start_gate = agent, attempt_runner, start_gate
        self._reporter, self._outbox = reporter, outbox
        self.suspect_readings = SuspectReadings(agent)
        limit = agent.settings.batch_limit
        self._inboxes = {
            queue: Inbox(topology.dispatch_queue(queue).name, {AttemptDispatched}, max_events=limit)
            for queue in agent.queues
        }
        # The holder of a claim may have died; then this message is how the attempt goes on, a second after
        # the lease. Later the holder lives, or the supervisor gives the job a new attempt.
        self._short_retries = ceil(agent.settings.agent_claim_ttl) + _LEASE_TOLERANCE

    async def handle(self, queue: str, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Process one batch. Raises LedgerUnavailable with nothing done, and may be called again then."""
        read, given_up = await self._read(queue, deliveries)
        batch = Batch(self._agent.clock.now(), self._agent.clock.monotonic())
        self._sort(batch, queue, subscription, read)
        if parked := batch.parked:
            _log.error(
                "Unreadable messages of a dispatch queue were parked.",
                action="agent.parked",
                queue=queue,
                messages=len(parked),
                reasons=format_reason_counts(Counter(failure.reason for failure in parked)),
                detail=parked[0].detail,
            )
        if batch.claims:
            await self._claim(batch)
        if batch.awaited:
            self._attempt_runner.spawn(self._claim_again(batch.awaited))
        await self._carry_out(batch)
        if given_up:
            await subscription.reject(given_up, requeue=False)

    async def _read(
        self, queue: str, deliveries: Sequence[Delivery]
    ) -> tuple[list[tuple[Delivery, list[DecodedEvent | ParkedEvent]]], list[Delivery]]:
        """Decode the messages, those that were returned often last and alone; return which are given up."""
        inbox, suspects = self._inboxes[queue], [one for one in deliveries if is_suspect(one)]
        rest = [one for one in deliveries if one not in suspects] if suspects else deliveries
        read, given_up = await inbox.read(rest), list[Delivery]()
        for one in suspects:
            try:
                if await self.suspect_readings.begin(queue, one):
                    read += await inbox.read([one])
                else:
                    given_up.append(one)
            finally:
                self.suspect_readings.note_survived(queue, one)
            await self.suspect_readings.release()
        return read, given_up

    async def _carry_out(self, batch: Batch) -> None:
        for run, delivery_ref in batch.adopted:
            if self._agent.running.get(run.claim) is run:
                run.delivery_refs.append(delivery_ref)
            else:  # it was reported during the claim of the others
                batch.done.append(delivery_ref)
        if batch.outgoing:
            await self._outbox.send(batch.outgoing)
        if batch.done:
            for delivery_ref in batch.done:
                delivery_ref.complete_event()
            await ack_all(batch.done)

    async def _claim_again(self, awaited: Claims) -> None:
        """Claim these attempts once more; those that are still held go back by a delay level."""
        await self._agent.clock.sleep(_GIVE_WAY_TIME)
        batch = Batch(self._agent.clock.now(), self._agent.clock.monotonic(), is_second_try=True)
        takes = self._attempt_runner.takes_attempts
        for claim, (event, delivery_refs) in awaited.items():
            if (run := self._agent.running.get(claim)) is not None:
                batch.adopted += [(run, delivery_ref) for delivery_ref in delivery_refs]
            elif takes and self._agent.running.free(delivery_refs[0].queue) > len(batch.claims):
                batch.claims[claim] = event, delivery_refs
            else:
                batch.forward(self._held_message(event, delivery_refs), delivery_refs)
        try:
            if batch.claims:
                await self._claim(batch)
        except LedgerUnavailable:
            for event, delivery_refs in batch.claims.values():
                batch.forward(self._held_message(event, delivery_refs), delivery_refs)
        await self._carry_out(batch)

    def _held_message(self, event: AttemptDispatched, delivery_refs: Sequence[DeliveryRef]) -> Message:
        return _resend_later(event, delivery_refs, self._short_retries, _MAX_HELD_DELAY)

    def _sort(
        self,
        batch: Batch,
        queue: str,
        subscription: Subscription,
        read: Sequence[tuple[Delivery, Sequence[DecodedEvent | ParkedEvent]]],
    ) -> None:
        claims, free = batch.claims, self._agent.running.free(queue)
        rooms: dict[str, int] = {}  # of gathered types: how many more may share a slot
        job_type = ""
        for delivery, elements in read:
            delivery_ref = DeliveryRef(subscription, delivery, queue, len(elements), batch.received_at)
            if not elements:
                batch.done.append(delivery_ref)
            before = len(claims)
            for element in elements:
                if isinstance(element, ParkedEvent):
                    batch.parked.append(element.failure)
                    batch.forward(element.message, [delivery_ref])
                    continue
                event = element.event
                assert isinstance(event, AttemptDispatched)  # its inbox has parked all others
                claim = Claim(event.data.job_id, event.data.attempt)
                if (duplicate := claims.get(claim)) is not None:  # a duplicate goes where the first one goes
                    duplicate[1].append(delivery_ref)
                else:
                    job_type = event.data.job_type
                    room = rooms.setdefault(job_type, self._attempt_runner.gathering.room(job_type))
                    taken = (free <= 0 and not room) or self._agent.restarts.is_suspended(job_type)
                    self._route_event(batch, event, claim, delivery_ref, slot_free=not taken)
            if len(claims) > before:  # attempts of one delivery share a slot
                free -= not rooms[job_type]
                definition = self._attempt_runner.definitions.get(job_type)
                size = 1 if definition is None or definition.gather is None else definition.gather.up_to
                rooms[job_type] = (rooms[job_type] or size) - 1

    def _route_event(
        self,
        batch: Batch,
        event: AttemptDispatched,
        claim: Claim,
        delivery_ref: DeliveryRef,
        *,
        slot_free: bool,
    ) -> None:
        run, is_shared = self._agent.running.get(claim), delivery_ref.is_redelivered_batch
        if (before := self._agent.running.earlier_run(claim)) is not None:
            if before.held_after_block and not before.handler_ended:
                # The declared loss was another agent's: the later attempt waits for the end of this run.
                batch.forward(self._held_message(event, [delivery_ref]), [delivery_ref])
                return
            before.request_stop(outcomes.StopCause.FENCED, f"attempt {claim.attempt} was dispatched")
            batch.forward(delayed_by(build_message(event), topology.DELAY_LEVELS[0]), [delivery_ref])
            return
        # An attempt that may have begun before is claimed all the same: the ledger knows if it runs
        # elsewhere.
        known = event.data.job_type in self._attempt_runner.definitions
        known = known or _may_have_begun(event, [delivery_ref])
        now = intake.arrival_time(
            event, batch.now, returned=delivery_ref.delivery.exchange == topology.RETURN
        )
        match intake.choose_route(
            event,
            now,
            runs_here=run is not None,
            slot_free=slot_free,
            is_shared=is_shared,
            known=known,
            avoids=self._agent.agent_id in event.data.avoid_agents
            and _count([delivery_ref], _AVOIDED) < _MAX_RETURNS_AVOIDED,
        ):
            case intake.IntakeRoute.CLAIM:
                batch.claims[claim] = (event, [delivery_ref])
            case intake.IntakeRoute.ADOPT:
                assert run is not None
                batch.adopted.append((run, delivery_ref))
            case intake.IntakeRoute.DELAY:
                message = build_delayed_message(event.model_copy(update={"time": now}), now)
                headers = {_SENT_BACK: str(_count([delivery_ref], _SENT_BACK)), **message.headers}
                batch.forward(message._replace(headers=headers), [delivery_ref])
            case intake.IntakeRoute.UNKNOWN:
                # Another agent has to run it. Nothing was claimed, so nothing is recorded.
                context = TraceContext(event.traceparent, event.tracestate)
                failed = outcomes.FailedOutcome(self._attempt_runner.unknown_job_type_error(event.data))
                ended = self._agent.event_factory.ended(
                    event.data, context, failed, started_at=batch.now, finished_at=batch.now
                )
                batch.forward(build_message(ended), [delivery_ref])
            case intake.IntakeRoute.NO_SLOT:
                batch.forward(
                    _resend_later(event, [delivery_ref], _SLOT_SHORT_RETRIES, _MAX_SLOT_DELAY), [delivery_ref]
                )
            case intake.IntakeRoute.AVOIDED:
                again = _resend_later(
                    event, [delivery_ref], _SLOT_SHORT_RETRIES, _MAX_AVOIDED_DELAY, counter=_AVOIDED
                )
                batch.forward(again, [delivery_ref])
            case intake.IntakeRoute.SPLIT:  # it comes back in a message of its own
                batch.forward(delayed_by(build_message(event), topology.DELAY_LEVELS[0]), [delivery_ref])

    async def _claim(self, batch: Batch) -> None:
        lease = self._agent.lease
        await self._fail_abandoned(batch)
        with self._agent.metrics.ledger_call("claim"):
            granted = await self._agent.ledger.claim(
                list(batch.claims), agent_id=self._agent.holder_id, lease=lease
            )
        lease_expires_at = batch.received_at + lease.total_seconds()
        for (claim, (event, delivery_refs)), answer in zip(batch.claims.items(), granted, strict=True):
            if answer.status is not ClaimStatus.GRANTED:
                self._handle_refusal(batch, claim, answer)
            elif self._agent.running.earlier_run(claim) is not None:  # begun during the claim
                self._handle_refusal(batch, claim, replace(answer, status=ClaimStatus.HELD))
            elif why := self._agent.breaker_filter.hold_reason(event, batch.received_at):
                # Only now: an attempt that ended is reported, and one that runs elsewhere is left alone.
                self._submit_outcome(batch, claim, outcomes.ReleasedOutcome(f"held back: {why}"))
            else:
                context = TraceContext(event.traceparent, event.tracestate)
                run = Run(
                    event.data,
                    claim,
                    delivery_refs,
                    batch.now,
                    batch.received_at,
                    lease_expires_at,
                    context,
                    event.baggage,
                )
                run.may_have_begun = _may_have_begun(event, delivery_refs)
                run.is_unchecked = run.may_have_begun or self._start_gate.holds(
                    event, resent=any(_SENT_BACK in one.delivery.headers for one in delivery_refs)
                )
                if answer.checkpoint is not None or event.data.checkpoint is not None:
                    run.resume_from(intake.newest_checkpoint(answer.checkpoint, event.data.checkpoint))
                self._agent.metrics.record_start(event, batch.now)
                self._attempt_runner.begin(run)

    async def _fail_abandoned(self, batch: Batch) -> None:
        """Record attempts that a dead process has begun as failed, so that the claim reports them.

        A handler that ends its process would otherwise end every process that it is delivered to: the
        supervisor counts the loss, and decides if another attempt follows.
        """
        lost = outcomes.abandoned_outcome()
        failures = [
            outcomes.failure_to_record(claim, lost, batch.now, batch.now)
            for claim, (event, delivery_refs) in batch.claims.items()
            if _may_have_begun(event, delivery_refs)
        ]
        if failures:
            with self._agent.metrics.ledger_call("fail"):
                await self._agent.ledger.fail_abandoned(failures, agent_id=self._agent.holder_id)

    def _handle_refusal(self, batch: Batch, claim: Claim, answer: ClaimResult) -> None:
        """Report the recorded end of an attempt again, or leave the attempt to its holder."""
        event, delivery_refs = batch.claims[claim]
        match answer.status:
            case ClaimStatus.GRANTED:
                raise ValueError("expected an answer that lets nothing start, got a granted claim")
            case ClaimStatus.COMPLETED:
                self._submit_outcome(
                    batch,
                    claim,
                    outcomes.SucceededOutcome(outcomes.recorded_completion(answer), recorded=True),
                )
            case ClaimStatus.FAILED:
                self._submit_outcome(batch, claim, outcomes.recorded_failure(answer))
            case ClaimStatus.CANCELLED:
                self._submit_outcome(batch, claim, outcomes.CancelledOutcome("cancelled before it began"))
            case ClaimStatus.HELD:
                is_new = _count(delivery_refs, _SENT_BACK) == 0
                if claim.attempt > 1 and is_new and not answer.locked and not batch.is_second_try:
                    batch.awaited[claim] = event, delivery_refs
                else:
                    batch.forward(self._held_message(event, delivery_refs), delivery_refs)
            case ClaimStatus.SUPERSEDED:
                _log.info(
                    "A dispatched attempt was dropped: a later one has the claim.",
                    action="agent.superseded",
                    job_id=str(claim.job_id),
                    attempt=claim.attempt,
                )
                batch.done += delivery_refs

    def _submit_outcome(self, batch: Batch, claim: Claim, outcome: outcomes.FinalOutcome) -> None:
        event, delivery_refs = batch.claims[claim]
        context = TraceContext(event.traceparent, event.tracestate)
        self._reporter.submit(AttemptReport(event.data, context, outcome, batch.now, delivery_refs))


def _reading_of(queue: str, delivery: Delivery) -> Claim:
    """Return the claim that stands for the reading; a name of its own, as the job is not known yet."""
    return Claim(uuid5(NAMESPACE_OID, f"{queue}:{delivery.message_id}:{delivery.body.hex()}"), 1)


def _may_have_begun(event: AttemptDispatched, delivery_refs: Sequence[DeliveryRef]) -> bool:
    """True if an agent may have begun it before: its message was delivered before, or waited on a delay level
    until another agent's claim had expired."""
    return any(
        delivery.redelivered or (delivery.exchange == topology.RETURN and event.data.not_before is None)
        for delivery in (delivery_ref.delivery for delivery_ref in delivery_refs)
    )


def _count(delivery_refs: Sequence[DeliveryRef], header: str) -> int:
    headers = [delivery_ref.delivery.headers.get(header) for delivery_ref in delivery_refs]
    return max(int(text) if isinstance(text, str) and text.isdecimal() else 0 for text in headers)


def _resend_later(
    event: AttemptDispatched,
    delivery_refs: Sequence[DeliveryRef],
    short_retries: int,
    max_delay: timedelta,
    *,
    counter: str = _SENT_BACK,
) -> Message:
    """Delay the attempt again, longer each time; headers count how often it was sent back, and how often
    because its agent is to avoid it."""
    counts = {name: _count(delivery_refs, name) for name in (_AVOIDED, _SENT_BACK)}
    message = delayed_by(build_message(event), intake.resend_level(counts[counter], short_retries, max_delay))
    counts[counter] += 1
    headers = {name: str(count) for name, count in counts.items() if count or name == _SENT_BACK}
    return message._replace(headers={**message.headers, **headers})

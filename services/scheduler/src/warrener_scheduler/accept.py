"""accept: requests become jobs. Insert → commit → publish the dispatch → confirmed → acknowledge the request.

Safe to be killed anywhere and run again with the same batch: the insert then changes nothing and the dispatch
is published again. The request is its own outbox.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from datetime import datetime
from uuid import UUID

from warrener_contracts.codec import DecodeFailure
from warrener_contracts.events import JobRequested, Reason
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import Message, to_supervisor, batch_parked
from warrener_contracts.states import JobState
from warrener_contracts.topology import DISPATCH, MAX_BODY, MAX_EVENTS
from warrener_contracts.decode_failures import format_reason_counts
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import NO_CONTEXT, Telemetry, TraceContext, names
from warrener_scheduler import answers
from warrener_scheduler.acceptance import Accepted, Decision, Rejected, decide, job_of
from warrener_scheduler.announce import Announce
from warrener_scheduler.arguments import problem
from warrener_scheduler.campaigns import Campaigns
from warrener_scheduler.clock.keeping import Keeping
from warrener_scheduler.clock.requests import schedule_of
from warrener_scheduler.congestion import Congestion
from warrener_scheduler.dispatch_letters import dispatch_letter
from warrener_scheduler.felled import cancels, felled_among
from warrener_scheduler.holds import Holds
from warrener_scheduler.intake import Asked, take_in
from warrener_scheduler.job_types import JobTypes, KnownType
from warrener_scheduler.publishing import publish
from warrener_scheduler.repeats import Repeat, repeated
from warrener_store.port import Inserted, StoreRefused
from warrener_store.rows import JobRow
from warrener_store.store import Store

_log = get_logger("accept")

_TURNED_AWAY = 500
"""Unreadable events that are answered and parked before the event loop may run."""

Outcome = JobRow | Repeat | Rejected
"""What became of a request: a new job, an earlier one, or none."""


class Accept:
    """The verb that hears the requests queue."""

    def __init__(
        self,
        bus: Bus,
        store: Store,
        clock: Clock,
        telemetry: Telemetry,
        announce: Announce,
        *,
        holds: Holds,
        campaigns: Campaigns,
        keeping: Keeping,
        job_types: JobTypes,
        insert_jobs: Callable[[Sequence[JobRow]], Awaitable[list[Inserted]]],
        congestion: Congestion,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._announce = announce
        self._holds = holds
        self._campaigns = campaigns
        self._keeping = keeping
        self._job_types = job_types
        self._insert_jobs = insert_jobs
        self._congestion = congestion
        self._max_events = max_events

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Carry out one batch. Raises for infrastructure's sake alone, and then nothing is acknowledged.

        Announcements come first: a request may stand in the same batch as the first word of its agent.
        """
        intake = take_in(await decode_all(deliveries, limit=MAX_BODY, max_events=self._max_events))
        if intake.announcements:
            await self._announce.carry_out(intake.announcements)
            self._job_types.forget()
        cancelled = {event.data.job_id for event in intake.cancels}
        letters, rows = await self._accept(intake.requests, cancelled)
        if intake.wishes:
            letters += await self._keeping.carry_out(intake.wishes)
        letters += [to_supervisor(event) for event in (*intake.cancels, *intake.handed_on)]
        letters += intake.strayed
        letters += await self._campaigns.carry_out(intake.orders)
        refused = await publish(self._bus, batch_parked(letters), self._clock)
        await self._congestion.leave(refused, rows)
        if intake.unreadable:
            await self._turn_away(intake.unreadable)
        await subscription.ack(deliveries)
        _log.debug("Requests were accepted.", action="accept.done", requests=len(intake.requests))

    async def _turn_away(self, unreadable: Sequence[DecodeFailure]) -> None:
        """Answer and park what cannot be read: after the others, which do not wait for it."""
        _warn(Counter(found.reason for found in unreadable), unreadable[0].detail)
        for begin in range(0, len(unreadable), _TURNED_AWAY):
            part, now = unreadable[begin : begin + _TURNED_AWAY], self._clock.now()
            letters = [letter for found in part for letter in answers.unreadable(found, now)]
            await publish(self._bus, batch_parked(letters), self._clock)

    async def _accept(
        self, requests: Sequence[Asked], cancelled: Set[UUID]
    ) -> tuple[list[Message], list[JobRow]]:
        """Insert these; what follows from it, and their jobs. What is cancelled in the same batch is not
        dispatched: its cancel goes to the judge with the rest."""
        if not requests:
            return [], []
        now = self._clock.now()
        traced = [self._traced(asked) for asked in requests]
        events = [asked.event for asked in traced]
        outcomes = await self._outcomes(events, now)
        _warn_of_rejected(events, outcomes)
        await self._release(events, outcomes)
        watched = await self._watch(events, outcomes)
        rows = [row for row in map(_row, outcomes) if row is not None]
        felled = await felled_among(self._store, rows)
        held_back = felled.keys() | cancelled
        letters = [
            letter
            for asked, outcome in zip(traced, outcomes, strict=True)
            for letter in _letters(asked, outcome, watched, now)
            if not held_back or letter.exchange != DISPATCH or job_of(asked.event) not in held_back
        ]
        return [*letters, *cancels(felled, now)], rows

    def _traced(self, asked: Asked) -> Asked:
        """The request under our span: the row and all attempts hang there. Without a context the trace begins
        here."""
        event = asked.event
        parent = TraceContext(event.traceparent, event.tracestate) if event.traceparent else None
        context = self._span(event, parent) if self._telemetry.records(parent) else parent or NO_CONTEXT
        if context == (event.traceparent, event.tracestate):
            return asked  # as without telemetry: an event is not copied for nothing
        return Asked(event.model_copy(update=context._asdict()), asked.came)

    def _span(self, event: JobRequested, parent: TraceContext | None) -> TraceContext:
        return self._telemetry.record_instant(
            names.accept(event.data.job_type),
            kind="consumer",
            parent=parent,
            attributes={names.JOB_ID: str(job_of(event))},
        )

    # -- deciding -----------------------------------------------------------------------------------------

    async def _outcomes(self, requests: Sequence[JobRequested], now: datetime) -> list[Outcome]:
        """One outcome for each request, with every new job in the store."""
        job_types = await self._job_types.named({event.data.job_type for event in requests})
        decisions = [_decide(event, job_types.get(event.data.job_type), now) for event in requests]
        decisions = [self._holds.held_back(decision, now) for decision in decisions]
        decisions = [self._congestion.unpublished(decision, now) for decision in decisions]
        accepted = [decision.row for decision in decisions if isinstance(decision, Accepted)]
        inserted = iter(await self._insert(accepted) if accepted else [])
        rejected = [
            job_of(event)
            for event, decision in zip(requests, decisions, strict=True)
            if isinstance(decision, Rejected)
        ]
        earlier = await self._store.jobs_by_id(rejected) if rejected else {}
        return [
            _settle(event, next(inserted) if isinstance(decision, Accepted) else decision, earlier)
            for event, decision in zip(requests, decisions, strict=True)
        ]

    async def _insert(self, rows: Sequence[JobRow]) -> list[Inserted | Rejected]:
        try:
            return list(await self._insert_jobs(rows))
        except StoreRefused:  # one of them is poisonous: the others must not suffer for it
            return [await self._insert_alone(row) for row in rows]

    async def _insert_alone(self, row: JobRow) -> Inserted | Rejected:
        try:
            return (await self._insert_jobs([row]))[0]
        except StoreRefused as error:
            return Rejected(Reason.BAD_FIELDS, f"the store refuses it: {error}")

    async def _release(self, requests: Sequence[JobRequested], outcomes: Sequence[Outcome]) -> None:
        """A schedule does not wait for the end of a job that there will never be."""
        rejected = [
            (schedule, job_of(event))
            for event, outcome in zip(requests, outcomes, strict=True)
            if isinstance(outcome, Rejected) and (schedule := schedule_of(event.source)) is not None
        ]
        if rejected:
            await self._store.release_schedules(rejected)

    # -- telling ------------------------------------------------------------------------------------------

    async def _watch(
        self, requests: Sequence[JobRequested], outcomes: Sequence[Outcome]
    ) -> Mapping[UUID, JobRow]:
        """Add those who ask again to the watchers; the rows of jobs that were over before that.

        Nobody else will tell these: the supervisor told the watchers that it found when the job ended.
        """
        wanted = [
            (outcome.row.job_id, event.data.reply_to)
            for event, outcome in zip(requests, outcomes, strict=True)
            if isinstance(outcome, Repeat) and event.data.reply_to
        ]
        if not wanted:
            return {}
        live = await self._store.add_watchers(wanted)
        return await self._store.jobs_by_id({job_id for job_id, _ in wanted} - live)


def _decide(event: JobRequested, known: KnownType | None, now: datetime) -> Decision:
    """Decide; where we ourselves fail at a request, it is rejected and the others go on."""
    try:
        if known is None:
            return decide(event, None, None, now)
        wrong = problem(known.validator, event.data.arguments) if known.validator else None
        return decide(event, known.row, wrong, now)
    except Exception as error:  # noqa: BLE001 - one request must not stop the others
        _log.exception("A request could not be decided: a bug.", action="accept.bug", event_id=event.id)
        return Rejected(Reason.IMPOSSIBLE, f"the scheduler failed at it: {type(error).__name__}: {error}")


def _settle(event: JobRequested, found: Inserted | Rejected, earlier: Mapping[UUID, JobRow]) -> Outcome:
    """A request that would be rejected today may be the repeat of one that was accepted before the job type
    changed or went: then that job stands."""
    if isinstance(found, Inserted):
        return found.row if found.new else repeated(event, found.row)
    row = earlier.get(job_of(event))
    return found if row is None else repeated(event, row)


def _row(outcome: Outcome) -> JobRow | None:
    if isinstance(outcome, Repeat):
        return outcome.row
    return outcome if isinstance(outcome, JobRow) else None


def _letters(asked: Asked, outcome: Outcome, over: Mapping[UUID, JobRow], now: datetime) -> list[Message]:
    event = asked.event
    match outcome:
        case JobRow() as row:
            published = row.state is JobState.QUEUED and row.dispatched_at is not None
            return [dispatch_letter(row, now)] if published else []
        case Repeat() as repeat:
            return _repeat_letters(event, repeat, over, now)
        case Rejected() as rejected:
            return answers.rejection(event, asked.came, rejected, now)


def _repeat_letters(
    event: JobRequested, repeat: Repeat, over: Mapping[UUID, JobRow], now: datetime
) -> list[Message]:
    letters = [dispatch_letter(repeat.row, now)] if repeat.dispatch else []
    address = event.data.reply_to
    if address and repeat.instead_of is not None:
        letters.append(answers.deduplicated_letter(event, repeat.row, address, now))
    if address and (row := over.get(repeat.row.job_id)) is not None:
        letters.append(answers.finished_letter(row, address))
    return letters


def _warn_of_rejected(events: Sequence[JobRequested], outcomes: Sequence[Outcome]) -> None:
    rejected = [
        (event, outcome)
        for event, outcome in zip(events, outcomes, strict=True)
        if isinstance(outcome, Rejected)
    ]
    if rejected:
        event, first = rejected[0]
        reasons = Counter(why.reason for _, why in rejected)
        _warn(reasons, first.detail, event_id=event.id, job_type=event.data.job_type)


def _warn(reasons: Counter[Reason], detail: str, **context: object) -> None:
    """One line for a batch, however many there are; `detail` and `context` are of the first."""
    _log.warning(
        "Requests were rejected.",
        action="accept.rejected",
        requests=reasons.total(),
        reasons=format_reason_counts(reasons),
        detail=detail,
        **context,
    )

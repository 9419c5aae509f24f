"""accept: requests become jobs. Insert → commit → publish the dispatch → confirmed → acknowledge the request.

Safe to be killed anywhere and run again with the same batch: the insert then changes nothing and the dispatch
is published again. The request is its own outbox.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from datetime import datetime
from uuid import UUID

from warrener_contracts.codec import DecodeFailure
from warrener_contracts.decode_failures import format_reason_counts
from warrener_contracts.events import JobRequested, Reason
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import Message, batch_parked, to_supervisor
from warrener_contracts.states import JobState
from warrener_contracts.topology import DISPATCH, MAX_BODY, MAX_EVENTS
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import NO_CONTEXT, Telemetry, TraceContext, names
from warrener_scheduler import replies
from warrener_scheduler.admission import Accepted, AdmissionDecision, Rejected, decide, job_id_for
from warrener_scheduler.announcements import AnnouncementHandler
from warrener_scheduler.arguments import find_argument_error
from warrener_scheduler.breaker_cache import BreakerCache
from warrener_scheduler.cancelled_trees import cancel_messages, find_cancelled
from warrener_scheduler.congestion import CongestedQueues
from warrener_scheduler.dispatch_messages import dispatch_message
from warrener_scheduler.duplicates import Duplicate, classify_duplicate
from warrener_scheduler.job_types import CachedJobType, JobTypeCache
from warrener_scheduler.publishing import publish
from warrener_scheduler.redrive_runner import RedriveRunner
from warrener_scheduler.request_batch import JobRequest, parse_batch
from warrener_scheduler.schedules.commands import ScheduleCommandHandler
from warrener_scheduler.schedules.tick_messages import schedule_from_source
from warrener_store.errors import StoreRefused
from warrener_store.jobs.rows import Inserted, JobRow
from warrener_store.store import Store

_log = get_logger("accept")

_PARK_CHUNK = 500
"""Unreadable events that are answered and parked before the event loop may run."""

AdmissionResult = JobRow | Duplicate | Rejected
"""What became of a request: a new job, an earlier one, or none."""


class RequestConsumer:
    """The verb that hears the requests queue."""

    def __init__(
        self,
        bus: Bus,
        store: Store,
        clock: Clock,
        telemetry: Telemetry,
        announcements: AnnouncementHandler,
        *,
        breaker_cache: BreakerCache,
        redrive_runner: RedriveRunner,
        commands: ScheduleCommandHandler,
        job_types: JobTypeCache,
        insert_jobs: Callable[[Sequence[JobRow]], Awaitable[list[Inserted]]],
        congestion: CongestedQueues,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._announcements = announcements
        self._breakers = breaker_cache
        self._redrive_runner = redrive_runner
        self._commands = commands
        self._job_types = job_types
        self._insert_jobs = insert_jobs
        self._congestion = congestion
        self._max_events = max_events

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Carry out one batch. Raises for infrastructure's sake alone, and then nothing is acknowledged.

        Announcements come first: a request may stand in the same batch as the first word of its agent.
        """
        batch = parse_batch(await decode_all(deliveries, limit=MAX_BODY, max_events=self._max_events))
        if batch.announcements:
            await self._announcements.carry_out(batch.announcements)
            self._job_types.invalidate()
        cancelled = {event.data.job_id for event in batch.cancels}
        messages, rows = await self._accept(batch.requests, cancelled)
        if batch.schedule_commands:
            messages += await self._commands.carry_out(batch.schedule_commands)
        messages += [to_supervisor(event) for event in (*batch.cancels, *batch.forwarded)]
        messages += batch.misrouted
        messages += await self._redrive_runner.carry_out(batch.redrive_commands)
        refused = await publish(self._bus, batch_parked(messages), self._clock)
        await self._congestion.record_refusals(refused, rows)
        if batch.unreadable:
            await self._reject_unreadable(batch.unreadable)
        await subscription.ack(deliveries)
        _log.debug("Requests were accepted.", action="accept.done", requests=len(batch.requests))

    async def _reject_unreadable(self, unreadable: Sequence[DecodeFailure]) -> None:
        """Answer and park what cannot be read: after the others, which do not wait for it."""
        _log_rejections(Counter(found.reason for found in unreadable), unreadable[0].detail)
        for begin in range(0, len(unreadable), _PARK_CHUNK):
            part, now = unreadable[begin : begin + _PARK_CHUNK], self._clock.now()
            messages = [message for found in part for message in replies.unreadable_messages(found, now)]
            await publish(self._bus, batch_parked(messages), self._clock)

    async def _accept(
        self, requests: Sequence[JobRequest], cancelled: Set[UUID]
    ) -> tuple[list[Message], list[JobRow]]:
        """Insert these; what follows from it, and their jobs. What is cancelled in the same batch is not
        dispatched: its cancel goes to the judge with the rest."""
        if not requests:
            return [], []
        now = self._clock.now()
        traced = [self._start_trace(request) for request in requests]
        events = [request.event for request in traced]
        outcomes = await self._admit(events, now)
        _log_rejected(events, outcomes)
        await self._release_schedules(events, outcomes)
        watched = await self._add_watchers(events, outcomes)
        rows = [row for row in map(_row, outcomes) if row is not None]
        in_cancelled_trees = await find_cancelled(self._store, rows)
        held_back = in_cancelled_trees.keys() | cancelled
        messages = [
            message
            for request, outcome in zip(traced, outcomes, strict=True)
            for message in _outgoing_messages(request, outcome, watched, now)
            if not held_back or message.exchange != DISPATCH or job_id_for(request.event) not in held_back
        ]
        return [*messages, *cancel_messages(in_cancelled_trees, now)], rows

    def _start_trace(self, request: JobRequest) -> JobRequest:
        """The request under our span: the row and all attempts hang there. Without a context the trace begins
        here."""
        event = request.event
        parent = TraceContext(event.traceparent, event.tracestate) if event.traceparent else None
        context = (
            self._record_span(event, parent) if self._telemetry.records(parent) else parent or NO_CONTEXT
        )
        if context == (event.traceparent, event.tracestate):
            return request  # as without telemetry: an event is not copied for nothing
        return JobRequest(event.model_copy(update=context._asdict()), request.received)

    def _record_span(self, event: JobRequested, parent: TraceContext | None) -> TraceContext:
        return self._telemetry.record_instant(
            names.accept(event.data.job_type),
            kind="consumer",
            parent=parent,
            attributes={names.JOB_ID: str(job_id_for(event))},
        )

    # -- deciding -----------------------------------------------------------------------------------------

    async def _admit(self, requests: Sequence[JobRequested], now: datetime) -> list[AdmissionResult]:
        """One outcome for each request, with every new job in the store."""
        job_types = await self._job_types.get_many({event.data.job_type for event in requests})
        decisions = [_decide(event, job_types.get(event.data.job_type), now) for event in requests]
        decisions = [self._breakers.hold_if_open(decision, now) for decision in decisions]
        decisions = [self._congestion.hold_if_closed(decision, now) for decision in decisions]
        accepted = [decision.row for decision in decisions if isinstance(decision, Accepted)]
        inserted = iter(await self._insert(accepted) if accepted else [])
        rejected = [
            job_id_for(event)
            for event, decision in zip(requests, decisions, strict=True)
            if isinstance(decision, Rejected)
        ]
        earlier = await self._store.jobs_by_id(rejected) if rejected else {}
        return [
            _resolve(event, next(inserted) if isinstance(decision, Accepted) else decision, earlier)
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

    async def _release_schedules(
        self, requests: Sequence[JobRequested], outcomes: Sequence[AdmissionResult]
    ) -> None:
        """A schedule does not wait for the end of a job that there will never be."""
        rejected = [
            (schedule, job_id_for(event))
            for event, outcome in zip(requests, outcomes, strict=True)
            if isinstance(outcome, Rejected) and (schedule := schedule_from_source(event.source)) is not None
        ]
        if rejected:
            await self._store.release_schedules(rejected)

    # -- telling ------------------------------------------------------------------------------------------

    async def _add_watchers(
        self, requests: Sequence[JobRequested], outcomes: Sequence[AdmissionResult]
    ) -> Mapping[UUID, JobRow]:
        """Add those who ask again to the watchers; the rows of jobs that were over before that.

        Nobody else will tell these: the supervisor told the watchers that it found when the job ended.
        """
        wanted = [
            (outcome.row.job_id, event.data.reply_to)
            for event, outcome in zip(requests, outcomes, strict=True)
            if isinstance(outcome, Duplicate) and event.data.reply_to
        ]
        if not wanted:
            return {}
        live = await self._store.add_watchers(wanted)
        return await self._store.jobs_by_id({job_id for job_id, _ in wanted} - live)


def _decide(event: JobRequested, known: CachedJobType | None, now: datetime) -> AdmissionDecision:
    """Decide; where we ourselves fail at a request, it is rejected and the others go on."""
    try:
        if known is None:
            return decide(event, None, None, now)
        wrong = find_argument_error(known.validator, event.data.arguments) if known.validator else None
        return decide(event, known.row, wrong, now)
    except Exception as error:  # noqa: BLE001 - one request must not stop the others
        _log.exception("A request could not be decided: a bug.", action="accept.bug", event_id=event.id)
        return Rejected(Reason.IMPOSSIBLE, f"the scheduler failed at it: {type(error).__name__}: {error}")


def _resolve(
    event: JobRequested, found: Inserted | Rejected, earlier: Mapping[UUID, JobRow]
) -> AdmissionResult:
    """A request that would be rejected today may be the repeat of one that was accepted before the job type
    changed or went: then that job stands."""
    if isinstance(found, Inserted):
        return found.row if found.new else classify_duplicate(event, found.row)
    row = earlier.get(job_id_for(event))
    return found if row is None else classify_duplicate(event, row)


def _row(outcome: AdmissionResult) -> JobRow | None:
    if isinstance(outcome, Duplicate):
        return outcome.row
    return outcome if isinstance(outcome, JobRow) else None


def _outgoing_messages(
    request: JobRequest, outcome: AdmissionResult, finished: Mapping[UUID, JobRow], now: datetime
) -> list[Message]:
    event = request.event
    match outcome:
        case JobRow() as row:
            published = row.state is JobState.QUEUED and row.dispatched_at is not None
            return [dispatch_message(row, now)] if published else []
        case Duplicate() as duplicate:
            return _duplicate_messages(event, duplicate, finished, now)
        case Rejected() as rejected:
            return replies.rejection(event, request.received, rejected, now)


def _duplicate_messages(
    event: JobRequested, duplicate: Duplicate, finished: Mapping[UUID, JobRow], now: datetime
) -> list[Message]:
    messages = [dispatch_message(duplicate.row, now)] if duplicate.dispatch else []
    address = event.data.reply_to
    if address and duplicate.instead_of is not None:
        messages.append(replies.deduplicated_reply(event, duplicate.row, address, now))
    if address and (row := finished.get(duplicate.row.job_id)) is not None:
        messages.append(replies.finished_reply(row, address))
    return messages


def _log_rejected(events: Sequence[JobRequested], outcomes: Sequence[AdmissionResult]) -> None:
    rejected = [
        (event, outcome)
        for event, outcome in zip(events, outcomes, strict=True)
        if isinstance(outcome, Rejected)
    ]
    if rejected:
        event, first = rejected[0]
        reasons = Counter(why.reason for _, why in rejected)
        _log_rejections(reasons, first.detail, event_id=event.id, job_type=event.data.job_type)


def _log_rejections(reasons: Counter[Reason], detail: str, **context: object) -> None:
    """One line for a batch, however many there are; `detail` and `context` are of the first."""
    _log.warning(
        "Requests were rejected.",
        action="accept.rejected",
        requests=reasons.total(),
        reasons=format_reason_counts(reasons),
        detail=detail,
        **context,
    )

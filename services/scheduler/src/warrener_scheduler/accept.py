"""Accept requests: they become jobs.

Insert → commit → publish the dispatch → confirmed → acknowledge the request. Safe to be killed anywhere and
run again with the same batch: the insert then changes nothing, and the dispatch is published again. So a
request is its own outbox.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.codec import DecodedEvent, format_reason_counts
from warrener_contracts.events import JobRequested, Reason
from warrener_contracts.identity import schedule_from_source
from warrener_contracts.messages import Message
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DISPATCH
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import NO_CONTEXT, Telemetry, TraceContext, names
from warrener_scheduler.decisions.admission import (
    Accepted,
    AdmissionDecision,
    CachedJobType,
    Duplicate,
    Rejected,
    classify_duplicate,
    decide,
    job_id_for,
)
from warrener_scheduler.dispatch_gates import BreakerCache, CongestedQueues
from warrener_scheduler.job_types import JobTypeCache
from warrener_scheduler.messages import (
    deduplicated_reply,
    dispatch_message,
    finished_reply,
    rejection,
    tree_cancel_message,
)
from warrener_store.errors import StoreRefused
from warrener_store.jobs.rows import Inserted, JobRow
from warrener_store.store import Store

_log = get_logger("accept")

AdmissionResult = JobRow | Duplicate | Rejected
"""The result of a request: a new job, an earlier one, or none."""


class JobRequest(NamedTuple):
    """A request and the message that it was read from, which is parked if the request is rejected."""

    event: JobRequested
    received: DecodedEvent


class RequestAcceptor:
    """Admits requests: inserts their jobs, and builds the messages that follow."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        telemetry: Telemetry,
        *,
        breaker_cache: BreakerCache,
        job_types: JobTypeCache,
        congestion: CongestedQueues,
        idempotency_window: timedelta | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._breakers = breaker_cache
        self._job_types = job_types
        self._congestion = congestion
        self._insert_jobs = IdempotencyWindow(store, clock, idempotency_window).insert_jobs

    async def accept(self, requests: Sequence[JobRequest]) -> tuple[list[Message], list[JobRow]]:
        """Insert jobs; returns the messages that follow, and the jobs."""
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
        in_cancelled_trees = await self._find_cancelled(rows)
        messages = [
            message
            for request, outcome in zip(traced, outcomes, strict=True)
            for message in _outgoing_messages(request, outcome, watched, now)
            if not in_cancelled_trees
            or message.exchange != DISPATCH
            or job_id_for(request.event) not in in_cancelled_trees
        ]
        messages += [tree_cancel_message(job_id, why, now) for job_id, why in in_cancelled_trees.items()]
        return messages, rows

    def _start_trace(self, request: JobRequest) -> JobRequest:
        """Return the request under our span, which all attempts join; without a context the trace begins."""
        event = request.event
        parent = TraceContext(event.traceparent, event.tracestate) if event.traceparent else None
        context = (
            self._record_span(event, parent) if self._telemetry.records(parent) else parent or NO_CONTEXT
        )
        if context == (event.traceparent, event.tracestate):
            return request  # without telemetry the event is not copied
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
        """Return one result for each request, with every new job in the store."""
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
        except StoreRefused:  # one by one, so that a single bad row cannot fail the batch
            return [await self._insert_alone(row) for row in rows]

    async def _insert_alone(self, row: JobRow) -> Inserted | Rejected:
        try:
            return (await self._insert_jobs([row]))[0]
        except StoreRefused as error:
            return Rejected(Reason.BAD_FIELDS, f"the store refuses it: {error}")

    async def _release_schedules(
        self, requests: Sequence[JobRequested], outcomes: Sequence[AdmissionResult]
    ) -> None:
        """Release schedules that would wait for the end of a rejected job."""
        rejected = [
            (schedule, job_id_for(event))
            for event, outcome in zip(requests, outcomes, strict=True)
            if isinstance(outcome, Rejected) and (schedule := schedule_from_source(event.source)) is not None
        ]
        if rejected:
            await self._store.release_schedules(rejected)

    # -- results that are there already --------------------------------------------------------------------

    async def _add_watchers(
        self, requests: Sequence[JobRequested], outcomes: Sequence[AdmissionResult]
    ) -> Mapping[UUID, JobRow]:
        """Add the reply addresses of duplicates to the watchers; returns the jobs that had ended before.

        These get their reply here: the supervisor has notified the watchers that were there when the job
        ended.
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

    async def _find_cancelled(self, rows: Sequence[JobRow]) -> Mapping[UUID, str]:
        """Return which of these jobs belong to a cancelled tree, and why. Only child jobs cost a query.

        The jobs must be in the store already: a cancel of a tree looks for child jobs after it has marked the
        tree, so that either side finds the other.
        """
        parents = {row.job_id: row.parent_id for row in rows if row.parent_id and not row.state.terminal}
        if not parents:
            return {}
        trees = await self._store.cancelled_among(set(parents.values()))
        return {job_id: trees[parent].reason for job_id, parent in parents.items() if parent in trees}


class IdempotencyWindow:
    """Inserts jobs. A key whose window has passed is given to the first job that requests it.

    Only a repeat looks at the window: a new job costs nothing, and no key is ever searched for.
    """

    def __init__(self, store: Store, clock: Clock, window: timedelta | None) -> None:
        self._store, self._clock, self._window = store, clock, window

    async def insert_jobs(self, rows: Sequence[JobRow]) -> list[Inserted]:
        """Insert jobs; release the keys of jobs that were accepted before the window and have ended."""
        inserted = await self._store.insert_jobs(rows)
        if self._window is None:
            return inserted
        latest = self._clock.now() - self._window
        places = [
            place
            for place, (row, found) in enumerate(zip(rows, inserted, strict=True))
            if not found.new
            and found.row.job_id != row.job_id
            and found.row.state.terminal
            and found.row.accepted_at < latest
        ]
        if not places:
            return inserted
        expired = {inserted[place].row.job_id for place in places}
        again = await self._store.insert_jobs([rows[place] for place in places], without_keys=expired)
        for place, found in zip(places, again, strict=True):
            inserted[place] = found
        return inserted


def _decide(event: JobRequested, known: CachedJobType | None, now: datetime) -> AdmissionDecision:
    """Decide about one request. One that we fail at is rejected, and the others go on."""
    try:
        return decide(event, known, now)
    except Exception as error:  # noqa: BLE001 - one request must not stop the others
        _log.exception("A request could not be decided: a bug.", action="accept.bug", event_id=event.id)
        return Rejected(Reason.IMPOSSIBLE, f"the scheduler failed at it: {type(error).__name__}: {error}")


def _resolve(
    event: JobRequested, found: Inserted | Rejected, earlier: Mapping[UUID, JobRow]
) -> AdmissionResult:
    """Resolve a decision against the store.

    A request that is rejected today may repeat one that was accepted before its job type changed or vanished:
    then that job stands.
    """
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
            return rejection(event, request.received, rejected.reason, rejected.detail, now)


def _duplicate_messages(
    event: JobRequested, duplicate: Duplicate, finished: Mapping[UUID, JobRow], now: datetime
) -> list[Message]:
    messages = [dispatch_message(duplicate.row, now)] if duplicate.dispatch else []
    address = event.data.reply_to
    if address and duplicate.instead_of is not None:
        messages.append(deduplicated_reply(event, duplicate.row, address, now))
    if address and (row := finished.get(duplicate.row.job_id)) is not None:
        messages.append(finished_reply(row, address))
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
        log_rejections(reasons, first.detail, event_id=event.id, job_type=event.data.job_type)


def log_rejections(reasons: Counter[Reason], detail: str, **context: object) -> None:
    """Log one line for a batch; `detail` and `context` are of the first rejection."""
    _log.warning(
        "Requests were rejected.",
        action="accept.rejected",
        requests=reasons.total(),
        reasons=format_reason_counts(reasons),
        detail=detail,
        **context,
    )

"""Accept requests: they become jobs.

Insert → commit → publish the dispatch → confirmed → acknowledge the request. Safe to be killed anywhere and
run again with the same batch: the insert then changes nothing, and the dispatch is published again. So a
request is its own outbox. A request that its requester repeats gets its answer and makes no dispatch.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.codec import DecodedEvent, format_reason_counts
from warrener_contracts.events import JobRequested, Reason
from warrener_contracts.identity import UNDO_SOURCE, child_source, schedule_from_source
from warrener_contracts.messages import Message
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DISPATCH
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import LinkTo, Span, SpanFailure, SpanShape, TraceContext, names
from warrener_runtime.telemetry.waits import record_waits
from warrener_scheduler.decisions import admission
from warrener_scheduler.decisions.ticks import PAUSED
from warrener_scheduler.dispatch import DispatchGates, wait_before_gate
from warrener_scheduler.job_types import JobTypeCache, KnownQueues
from warrener_scheduler.messages import (
    cancel_message,
    deduplicated_reply,
    dispatch_message,
    finished_reply,
    rejection,
)
from warrener_scheduler.ports import SchedulerPorts, UnknownQueues
from warrener_scheduler.rejections import Rejected
from warrener_store.errors import StoreRefused
from warrener_store.gates.rows import SLOT_WITHOUT_JOB, SlotClaim, slot_claim
from warrener_store.incidents.rows import SCHEDULE_PAUSED, RaisedIncident
from warrener_store.jobs.rows import Inserted, JobRow
from warrener_store.jobs.rules import CANCEL_MARK
from warrener_store.jobs.timeline import IntervalCause, JobInterval
from warrener_store.schedules.rows import RejectedTick, ScheduleRow, TickRow
from warrener_store.store import Store

_log = get_logger("accept")

REJECTED = "rejected: "  # the beginning of the reason of a tick whose request was rejected
SKIPPED = "skipped: "  # of one that repeats another request, as its job type foresees
_EXAMINED_TICKS = 3  # ticks that are read for each that counts: others request no job

AdmissionResult = JobRow | admission.Duplicate | Rejected
"""The result of a request: a new job, an earlier one, or none."""


class JobRequest(NamedTuple):
    """A request and the message that it was read from, which is parked if the request is rejected.

    `redelivered`: True if its message was handled before, perhaps not to the end.
    """

    event: JobRequested
    received: DecodedEvent
    redelivered: bool = False


class RequestAcceptor:
    """Admits requests: inserts their jobs, and builds the messages that follow."""

    def __init__(
        self,
        ports: SchedulerPorts,
        gates: DispatchGates,
        job_types: JobTypeCache,
        queues: KnownQueues,
        *,
        rejected_ticks: "RejectedTicks",
        idempotency_window: timedelta | None,
    ) -> None:
        _, self._store, self._clock, self._telemetry, self._metrics = ports
        self._breakers, self._congestion = gates
        self._job_types, self._queues, self._rejected_ticks = job_types, queues, rejected_ticks
        self._idempotency_window = idempotency_window

    async def accept(self, requests: Sequence[JobRequest]) -> tuple[list[Message], list[JobRow]]:
        """Insert jobs; returns the messages that follow, and the jobs."""
        if not requests:
            return [], []
        now = self._clock.now()
        traced = [self._start_trace(request, now) for request in requests]
        events = [request.event for request, _ in traced]
        outcomes = await self._admit(events, now)
        self._metrics.record_requests(events, outcomes)
        for (_, span), outcome in zip(traced, outcomes, strict=True):
            if span is not None:
                _end_span(span, outcome)
        _log_rejected(events, outcomes)
        # Schedules would wait for the ends of the jobs of rejected ticks.
        rejected = [
            RejectedTick(schedule, admission.job_id_for(event), why)
            for event, outcome in zip(events, outcomes, strict=True)
            if not isinstance(outcome, JobRow)
            and (schedule := schedule_from_source(event.source)) is not None
            and (why := _without_job(outcome)) is not None
        ]
        if rejected:
            await self._rejected_ticks.record(rejected)
        without_job = await self._end_rejected(events, outcomes, now)
        watched = await self._add_watchers(events, outcomes)
        rows = [
            outcome.row if isinstance(outcome, admission.Duplicate) else outcome
            for outcome in outcomes
            if not isinstance(outcome, Rejected)
        ]
        following = [row for row in without_job if not row.state.terminal]
        in_cancelled_trees = await self._find_cancelled([*rows, *following])
        messages = [
            message
            for (request, _), outcome in zip(traced, outcomes, strict=True)
            for message in _outgoing_messages(request, outcome, watched, now)
            if not in_cancelled_trees
            or message.exchange != DISPATCH
            or admission.job_id_for(request.event) not in in_cancelled_trees
        ]
        messages += [
            cancel_message(job_id, why, now, tree=True) for job_id, why in in_cancelled_trees.items()
        ]
        return messages, rows

    def _start_trace(self, request: JobRequest, now: datetime) -> tuple[JobRequest, Span | None]:
        """Return the request under a span of ours, which all attempts join, and the span if it is recorded.

        Without a context the trace begins here. The span ends once the job is stored; one that is not stored
        is not recorded, and the request comes again.
        """
        event = request.event
        parent = TraceContext(event.traceparent, event.tracestate) if event.traceparent else None
        if not self._telemetry.records(parent):
            return request, None  # without telemetry the event is not copied
        job = _Requested(admission.job_id_for(event), event.data.job_type)
        job_id = str(job.job_id)
        span = self._telemetry.span(
            _accept_shape(job.job_type),
            parent=parent,
            attributes={names.JOB_ID: job_id, names.MESSAGING_MESSAGE_ID: event.id},
        )
        traced = request._replace(event=event.model_copy(update=span.context._asdict()))
        if not span.recording:
            return traced, None
        if event.time is not None:
            wait = JobInterval(IntervalCause.REQUEST, event.time, now, 1)
            record_waits(self._telemetry, job, [wait], parent or span.context, own={names.JOB_ID: job_id})
        return traced, span

    # -- deciding -----------------------------------------------------------------------------------------

    async def _admit(self, requests: Sequence[JobRequested], now: datetime) -> list[AdmissionResult]:
        """Return one result for each request, with every new job in the store."""
        job_types = await self._job_types.get_many({event.data.job_type for event in requests})
        unknown = await self._queues.find_unknown({event.data.queue for event in requests})
        decisions = [_decide(event, job_types.get(event.data.job_type), unknown, now) for event in requests]
        decisions = [self._breakers.hold_if_open(decision, now) for decision in decisions]
        decisions = [self._congestion.hold_if_closed(decision, now) for decision in decisions]
        accepted = [decision.row for decision in decisions if isinstance(decision, admission.Accepted)]
        inserted = iter(await self._insert_with_slots(accepted, job_types, now) if accepted else [])
        rejected = [
            admission.job_id_for(event)
            for event, decision in zip(requests, decisions, strict=True)
            if isinstance(decision, Rejected)
        ]
        earlier = await self._store.jobs_by_id(rejected) if rejected else {}
        return [
            _resolve(event, next(inserted) if isinstance(decision, admission.Accepted) else decision, earlier)
            for event, decision in zip(requests, decisions, strict=True)
        ]

    async def _insert_with_slots(
        self, rows: Sequence[JobRow], job_types: Mapping[str, admission.CachedJobType], now: datetime
    ) -> list[Inserted | Rejected]:
        """Insert jobs; those that need slots take them first, and wait if they get none."""
        claims = {
            row.job_id: slot_claim(row, now, job_types[row.job_type].row.announced_at)
            for row in rows
            if row.gates is not None and row.state is JobState.QUEUED
        }
        later = [
            slot_claim(row, now, job_types[row.job_type].row.announced_at)
            for row in rows
            if row.gates is not None and row.state is JobState.WAITING
        ]
        await self._store.declare_gates(later, now)
        if not claims:
            return await self._insert(rows)
        granted = await self._store.take_slots(list(claims.values()), now, fresh=True)
        if self._clock.now() - now >= SLOT_WITHOUT_JOB / 2:
            raise TimeoutError(
                "expected to insert jobs soon after their slots were taken, was stopped for minutes"
            )
        results = await self._insert(
            [
                # Moments of their own: a line has the order of its requests.
                wait_before_gate(row, now - timedelta(microseconds=len(rows) - place))
                if row.job_id in claims.keys() - granted
                else row
                for place, row in enumerate(rows)
            ]
        )
        unused: list[tuple[UUID, int]] = []
        refused: list[SlotClaim] = []
        for row, found in zip(rows, results, strict=True):
            stored = None if isinstance(found, Rejected) else found.row
            if row.job_id in granted and (stored is None or stored.job_id != row.job_id):
                unused.append((row.job_id, 1))  # another job stands for it
            # Also of a repeat: the scheduler that inserted it may have died before it was in line.
            if row.job_id in claims and stored is not None and _waits_for_slot(stored, now):
                refused.append(slot_claim(stored, now))
        await self._store.wake_heads(await self._store.release_slots(unused), now)
        await self._store.wait_for_slots(refused, now)
        return results

    async def _insert(self, rows: Sequence[JobRow]) -> list[Inserted | Rejected]:
        # The store inserts them apart: what is refused of the one must not undo what is known of the other.
        parts = [[row for row in rows if (row.policy.unique is None) is plain] for plain in (True, False)]
        if all(parts):
            unique, plain = [iter(await self._insert(part)) for part in reversed(parts)]
            return [next(plain if row.policy.unique is None else unique) for row in rows]
        window = self._idempotency_window
        keys_since = None if window is None else self._clock.now() - window
        try:
            return list(await insert_jobs(self._store, rows, keys_since))
        except StoreRefused as error:
            if len(rows) == 1:
                return [Rejected(Reason.BAD_FIELDS, f"the store refuses it: {error}", "the store refuses it")]
            # One by one, so that a single bad row cannot fail the batch.
            return [result for row in rows for result in await self._insert([row])]

    async def _end_rejected(
        self, events: Sequence[JobRequested], outcomes: Sequence[AdmissionResult], now: datetime
    ) -> list[JobRow]:
        """Leave a row of each child job that another job stands for; and an ended one of each that was
        rejected, and wake its parent. A job that is there stays. Return these rows.

        A request of an unknown job type is parked until an agent announces that.
        """
        rows = [
            row
            for event, outcome in zip(events, outcomes, strict=True)
            if event.data.parent_id is not None and (row := _row_without_job(event, outcome, now)) is not None
        ]
        if rows:
            await self._insert(rows)
        # Also of those that were there: the scheduler that inserted them may have died then.
        ended = [
            one.row
            for one in outcomes
            if isinstance(one, admission.Duplicate) and admission.was_rejected(one.row)
        ]
        if parents := {row.parent_id for row in (*rows, *ended) if row.parent_id}:
            await self._store.wake_suspended(parents, now)
        return rows

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
            if isinstance(outcome, admission.Duplicate) and event.data.reply_to
        ]
        if not wanted:
            return {}
        live = await self._store.add_watchers(wanted)
        return await self._store.jobs_by_id({job_id for job_id, _ in wanted} - live)

    async def _find_cancelled(self, rows: Sequence[JobRow]) -> Mapping[UUID, str]:
        """Return which of these jobs belong to a cancelled tree, and why; none that undoes a call. The end of
        a workflow cancels what its handler has requested: a detached child job, or one that compensates, goes
        on. Only child jobs cost a query.

        The jobs must be in the store already: a cancel of a tree looks for child jobs after it has marked the
        tree, so that either side finds the other.
        """
        children = [
            (row, row.parent_id)
            for row in rows
            if row.parent_id and not row.state.terminal and not row.source.startswith(UNDO_SOURCE)
        ]
        if not children:
            return {}
        trees = await self._store.cancelled_among({parent for _, parent in children})
        return {
            row.job_id: tree.reason
            for row, parent in children
            if (tree := trees.get(parent)) and (not tree.is_of_end or row.source == child_source(parent))
        }


class RejectedTicks:
    """Records ticks whose requests were rejected, and pauses a schedule after `limit` of them in a row."""

    def __init__(self, store: Store, clock: Clock, limit: int | None) -> None:
        self._store, self._clock, self._limit = store, clock, limit

    async def record(self, rejected: Sequence[RejectedTick]) -> None:
        """Store the reasons; raise an incident for each schedule that is paused. A repeat changes nothing."""
        await self._store.reject_ticks(rejected)
        if self._limit is None:
            return
        last = {each.schedule: each.reason for each in rejected}
        rows = await self._store.schedules(last)
        for name, row in rows.items():
            ticks = await self._store.ticks_of(name, _EXAMINED_TICKS * self._limit)
            if not row.paused and count_rejected(ticks) >= self._limit:
                await self._pause(row, last[name], ticks[0].nominal_at)

    async def _pause(self, row: ScheduleRow, reason: str, nominal_at: datetime) -> None:
        now, why = self._clock.now(), f"the requests of its last {self._limit} ticks were {reason}"
        text = f"schedule {row.name} is paused, because {why}; then resume it"
        raised = RaisedIncident(
            kind=SCHEDULE_PAUSED,
            fingerprint=f"{SCHEDULE_PAUSED}:{row.name}",
            occurrence=f"{row.name}@{nominal_at.isoformat()}",
            subject=row.name,
            job_type=row.definition.job_type,
            sample={"text": text, "schedule": row.name},
            raised_at=now,
        )
        # Raise before pausing: after a crash in between, the next rejection does both.
        await self._store.escalations.raise_incidents([raised])
        await self._store.pause_schedules({row.name}, now, paused=True, why=why)
        _log.warning("A schedule was paused.", action="accept.schedule_paused", schedule=row.name, why=why)


def count_rejected(ticks: Sequence[TickRow]) -> int:
    """Count the newest ticks that requested a job and were rejected, up to the first that was not, or to a
    pause: resuming a schedule begins the count again."""
    since_pause = takewhile(lambda tick: not tick.reason.startswith(PAUSED), ticks)
    requested = (tick for tick in since_pause if tick.job_id is not None)
    return sum(1 for _ in takewhile(lambda tick: tick.reason.startswith(REJECTED), requested))


async def insert_jobs(store: Store, rows: Sequence[JobRow], keys_since: datetime | None) -> list[Inserted]:
    """Insert jobs; release the keys of jobs that were accepted before `keys_since` and have ended, each to
    the first job that requests it.

    Only a repeat looks at that time: a new job costs nothing, and no key is ever searched for.
    """
    inserted = await store.insert_jobs(rows)
    places = [
        place
        for place, (row, found) in enumerate(zip(rows, inserted, strict=True))
        if keys_since is not None
        and not found.new
        and found.repeat is None
        and found.row.job_id != row.job_id
        and found.row.state.terminal
        and found.row.accepted_at < keys_since
    ]
    if places:
        expired = {inserted[place].row.job_id for place in places}
        again = await store.insert_jobs([rows[place] for place in places], without_keys=expired)
        for place, found in zip(places, again, strict=True):
            inserted[place] = found
    return inserted


def _decide(
    event: JobRequested, known: admission.CachedJobType | None, unknown: UnknownQueues, now: datetime
) -> admission.AdmissionDecision:
    """Decide about one request. One that we fail at is rejected, and the others go on."""
    try:
        return admission.decide(event, known, now, unknown)
    except Exception as error:  # noqa: BLE001 - one request must not stop the others
        _log.exception("A request could not be decided: a bug.", action="accept.bug", event_id=event.id)
        why = f"the scheduler failed at it: {type(error).__name__}"
        return Rejected(Reason.IMPOSSIBLE, f"{why}: {error}", why)


def _resolve(
    event: JobRequested, found: Inserted | Rejected, earlier: Mapping[UUID, JobRow]
) -> AdmissionResult:
    """Resolve a decision against the store.

    A request that is rejected today may repeat one that was accepted before its job type changed or vanished:
    then that job stands.
    """
    if isinstance(found, Inserted):
        if found.repeat is not None:
            return admission.classify_repeat(event, found.row, found.repeat)
        return found.row if found.new else admission.classify_duplicate(event, found.row)
    row = earlier.get(admission.job_id_for(event))
    if row is None or admission.was_rejected(row):
        return found
    repeat = admission.classify_duplicate(event, row)
    return found if isinstance(repeat, Rejected) and found.hides_arguments else repeat


def _row_without_job(event: JobRequested, outcome: AdmissionResult, now: datetime) -> JobRow | None:
    """Return the row of a child job that is none: its parent may wait for it. Calls have no idempotency keys;
    a request with one has its reply."""
    if isinstance(outcome, admission.Duplicate):
        stands = outcome.instead_of is not None and event.data.idempotency_key is None
        return admission.follower_row(event, outcome.row.job_id, now) if stands else None
    if isinstance(outcome, Rejected) and outcome.reason is not Reason.UNKNOWN_JOB_TYPE:
        return admission.rejected_row(event, outcome, now)
    return None


def _without_job(outcome: admission.Duplicate | Rejected) -> str | None:
    """Return why a tick that was requested gets no job; None: it has one."""
    if isinstance(outcome, Rejected):
        return f"{REJECTED if outcome.parks else SKIPPED}{outcome.detail}"
    if outcome.instead_of is not None:
        return f"{SKIPPED}job {outcome.row.job_id} stands for it"
    if outcome.row.job_type == CANCEL_MARK:
        return f"cancelled before it began: {outcome.row.cancel_reason}"
    return None


def _waits_for_slot(row: JobRow, now: datetime) -> bool:
    """True if a job with gates waits for nothing else."""
    is_due = row.state is JobState.WAITING and row.due_at is not None and row.due_at <= now
    return is_due and row.gates is not None


class _Requested(NamedTuple):
    """A job that a request is about."""

    job_id: UUID
    job_type: str


@lru_cache(maxsize=1024)
def _accept_shape(job_type: str) -> SpanShape:
    return names.ACCEPT.shape(job_type, {})


def _end_span(span: Span, outcome: AdmissionResult) -> None:
    """End the span of a request; a rejection is an error, and a duplicate leads to the trace of its job."""
    match outcome:
        case JobRow() as row:
            span.set(names.OUTCOME, "accepted")
            span.set(names.QUEUE, row.queue)
        case admission.Duplicate() as duplicate:
            span.set(names.OUTCOME, "duplicate")
            span.set(names.QUEUE, duplicate.row.queue)
            job = TraceContext(duplicate.row.traceparent, duplicate.row.tracestate)
            span.link(LinkTo(job, "duplicate of"))
        case Rejected() as rejected:
            span.set(names.OUTCOME, "rejected")
            span.set(names.REASON, rejected.public)
            span.fail(SpanFailure(rejected.reason.value, rejected.public))
    span.finish()


def _outgoing_messages(
    request: JobRequest, outcome: AdmissionResult, finished: Mapping[UUID, JobRow], now: datetime
) -> list[Message]:
    event = request.event
    match outcome:
        case JobRow() as row:
            published = row.state is JobState.QUEUED and row.dispatched_at is not None
            return [dispatch_message(row, now)] if published else []
        case Rejected() as rejected:
            return rejection(event, request.received, rejected, now)
        case admission.Duplicate() as duplicate:
            pass
    # The dispatch of a request that somebody repeats is in its queue, or missed by the supervisor.
    is_repeated = duplicate.dispatch and request.redelivered
    messages = [dispatch_message(duplicate.row, now)] if is_repeated else []
    address = event.data.reply_to
    if address and duplicate.instead_of is not None:
        messages.append(deduplicated_reply(event, duplicate.row, address, now))
    if address and (ended := finished.get(duplicate.row.job_id)) is not None:
        messages.append(finished_reply(ended, address))
    return messages


def _log_rejected(events: Sequence[JobRequested], outcomes: Sequence[AdmissionResult]) -> None:
    rejected = [
        (event, outcome)
        for event, outcome in zip(events, outcomes, strict=True)
        if isinstance(outcome, Rejected) and outcome.parks
    ]
    if rejected:
        event, first = rejected[0]
        reasons = Counter(why.reason for _, why in rejected)
        log_rejections(reasons, first.public, event_id=event.id, job_type=event.data.job_type)


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

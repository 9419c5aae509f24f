"""Record the spans of a job once its transitions are saved: waits, lost attempts, verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from warrener_contracts.events import AttemptFailed, AttemptLost, AttemptStarted, CallKind, ErrorKind, Event
from warrener_contracts.identity import attempt_span_id
from warrener_contracts.journals import next_timer
from warrener_contracts.state_machine import JobState
from warrener_runtime.clock import Clock
from warrener_runtime.telemetry import LinkTo, SpanFailure, SpanShape, Telemetry, TraceContext, names
from warrener_runtime.telemetry.waits import record_waits
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.rules import VERDICT
from warrener_store.jobs.timeline import IntervalCause, JobInterval, current_waits, waits_in_queue
from warrener_store.jobs.views import SucceededJob
from warrener_store.workflows.rows import TurnRow, WaitKind
from warrener_supervisor.decisions.context import JobTransition
from warrener_supervisor.decisions.judge import JobBatch
from warrener_supervisor.decisions.signals import attempt_of

_LOST = "lost"
_MAX_AWAITS = 100  # spans of one turn's answers


class JobWait(NamedTuple):
    """A wait of a workflow that is over."""

    name: str
    kind: WaitKind
    since: datetime
    until: datetime


class JobSpans:
    """Records the spans of jobs. Costs nothing for a job whose trace is not recorded."""

    def __init__(self, telemetry: Telemetry, clock: Clock) -> None:
        self._telemetry, self._clock = telemetry, clock

    def record_batch(self, batch: JobBatch, begun_at: datetime) -> TraceContext:
        """Record the spans of a job's transitions, judged since `begun_at`; return the last context."""
        row = batch.first
        last = TraceContext(row.traceparent, row.tracestate)
        for entry, decision in batch.decisions:
            if isinstance(decision, JobTransition):
                last = self._record_transition(row, entry.event, decision, last, begun_at)
                row = decision.row
        return last

    def record_success(self, job: SucceededJob, event: Event[Any], begun_at: datetime) -> TraceContext:
        """Do the same for a job that the fast path has ended."""
        own = TraceContext(job.traceparent, job.tracestate)
        parent = _parent(event, own)
        if not self._telemetry.records(parent):
            return parent
        started_at = _moment(event, "started_at") or begun_at
        waits: Sequence[JobInterval] = ()
        if job.waited_since is not None:
            waits = waits_in_queue(job.waited_since, job.was_due_at, started_at, job.attempt)
        of_job = {names.JOB_ID: str(job.job_id)}
        waits = [*waits, *_verdict_wait(event, begun_at, job.attempt)]
        record_waits(self._telemetry, job, waits, own, of_job)
        shape = _judgement(job.job_type, JobState.SUCCEEDED, job.attempt, event.type, VERDICT)
        return self._telemetry.record(shape, begun_at, self._clock.now(), parent=parent, attributes=of_job)

    def record_waits_until(self, now: datetime, rows: Iterable[JobRow]) -> None:
        """Record what these jobs have waited for until now."""
        for row in rows:
            if row.traceparent is not None:
                own = TraceContext(row.traceparent, row.tracestate)
                record_waits(self._telemetry, row, current_waits(row, now), own)

    def record_answers(self, row: JobRow, turns: Sequence[TurnRow], begun: TurnRow) -> None:
        """Record the waits of a suspended workflow that the answers of the turn which has begun end."""
        if not self._telemetry.records(TraceContext(row.traceparent, row.tracestate)):
            return
        made = {
            call.call_id: (call, turn.suspended_at or row.updated_at)
            for turn in turns
            for call in (turn.suspension.calls if turn.suspension is not None else ())
        }
        timer = next_timer(turns)
        for answer in begun.answers[:_MAX_AWAITS]:
            failure = None if (error := answer.error) is None else SpanFailure(error.type, error.message)
            if (found := made.get(answer.call_id or "")) is None:
                wait = JobWait("timer", WaitKind.TIMER, row.updated_at, answer.at)
                self._record_await(row, wait, {names.CALL_LINE: timer[1] if timer else ""}, failure)
                continue
            call, since = found
            kind = WaitKind.SIGNAL if call.kind is CallKind.SIGNAL else WaitKind.CHILD
            of_call: dict[str, str] = {names.CALL: call.call_id, names.CALL_LINE: call.line}
            of_call |= {} if call.job_id is None else {names.CHILD_JOB_ID: str(call.job_id)}
            self._record_await(row, JobWait(call.name, kind, since, answer.at), of_call, failure)

    def record_hold(self, row: JobRow, now: datetime) -> None:
        """Record how long a workflow was held."""
        self._record_await(row, JobWait("operator", WaitKind.HELD, row.updated_at, now), {})

    def _record_await(
        self, row: JobRow, wait: JobWait, of_call: Mapping[str, str], failure: SpanFailure | None = None
    ) -> None:
        own = TraceContext(row.traceparent, row.tracestate)
        if own.traceparent is None:  # the trace begins in the agent, and nobody else knows it
            return
        attributes = {names.JOB_ID: str(row.job_id), names.JOB_TYPE: row.job_type, **of_call}
        self._telemetry.record(
            names.AWAIT.name(wait.name),
            wait.since,
            wait.until,
            kind=names.AWAIT.kind,
            parent=own,
            attributes={
                **{name: value for name, value in attributes.items() if value},
                names.WAIT_CAUSE: wait.kind.value,
                names.ATTEMPT: row.attempt,
            },
            failure=failure,
        )

    def _record_transition(
        self,
        before: JobRow,
        event: Event[Any],
        decision: JobTransition,
        otherwise: TraceContext,
        begun_at: datetime,
    ) -> TraceContext:
        own = TraceContext(before.traceparent, before.tracestate)
        parent = _parent(event, otherwise)
        if not self._telemetry.records(parent):
            return parent
        until = _end_of_wait(before, event, decision, begun_at)
        waits = [*current_waits(before, until), *_verdict_wait(event, begun_at, before.attempt)]
        record_waits(self._telemetry, before, waits, own)
        lost = self._record_lost_attempt(before, event, own, begun_at)
        if lost is not None and not isinstance(event, AttemptStarted):
            parent = lost
        failure = None
        if decision.dead_letter is not None:
            error = decision.row.error
            failure = SpanFailure(error.type if error else "dead", decision.dead_letter.reason)
        attempt = attempt_of(event) or before.attempt
        return self._telemetry.record(
            _judgement(before.job_type, decision.row.state, attempt, event.type, decision.verdict),
            begun_at,
            self._clock.now(),
            parent=parent,
            attributes={names.JOB_ID: str(before.job_id)},
            failure=failure,
        )

    def _record_lost_attempt(
        self, before: JobRow, event: Event[Any], own: TraceContext, now: datetime
    ) -> TraceContext | None:
        """Record the span that an agent began and cannot end: it is gone, as another one may have found
        first, or has begun the attempt again."""
        if before.state is not JobState.RUNNING or before.started_at is None or before.agent_id is None:
            return None
        if own.traceparent is None:  # the trace begins in the agent, and nobody else knows it
            return None
        links: list[LinkTo] = []
        span_id = attempt_span_id(before.job_id, before.attempt, before.agent_id)
        if isinstance(event, AttemptStarted):
            if event.data.started_at <= before.started_at:
                return None
            links.append(LinkTo(TraceContext(event.traceparent, event.tracestate), "taken over by"))
            now = event.data.started_at
            if event.data.agent_id == before.agent_id:  # after a restart: its second span has the identifier
                life = f"{before.agent_id} {before.started_at.isoformat()}"
                span_id = attempt_span_id(before.job_id, before.attempt, life)
        elif isinstance(event, AttemptFailed) and event.data.error.kind is ErrorKind.LOST:
            now = max(before.started_at, min(event.data.finished_at, now))  # by our clock, as its start
        elif not isinstance(event, AttemptLost):
            return None
        job_id = str(before.job_id)
        return self._telemetry.record(
            names.ATTEMPT_SPAN.name(before.job_type),
            before.started_at,
            now,
            kind=names.ATTEMPT_SPAN.kind,
            parent=own,
            links=links,
            attributes={
                **names.ATTEMPT_SPAN.constants,
                names.MESSAGING_DESTINATION_NAME: f"warrener.queue.{before.queue}",
                names.MESSAGING_CONVERSATION_ID: job_id,
                names.JOB_ID: job_id,
                names.JOB_TYPE: before.job_type,
                names.ATTEMPT: before.attempt,
                names.QUEUE: before.queue,
                names.AGENT_ID: before.agent_id,
                names.OUTCOME: _LOST,
            },
            failure=SpanFailure(_LOST, f"the attempt was lost with its agent {before.agent_id}"),
            span_id=span_id,
        )


@lru_cache(maxsize=1024)
def _judgement(job_type: str, state: JobState, attempt: int, outcome: str, verdict: str) -> SpanShape:
    judged = {names.JOB_STATE: state.value, names.ATTEMPT: attempt}
    return names.JUDGE.shape(job_type, {**judged, names.OUTCOME: outcome, names.VERDICT: verdict})


def _parent(event: Event[Any], otherwise: TraceContext) -> TraceContext:
    """The attempt that the event is about, if it says so."""
    return TraceContext(event.traceparent, event.tracestate) if event.traceparent else otherwise


def _end_of_wait(before: JobRow, event: Event[Any], decision: JobTransition, now: datetime) -> datetime:
    """When the wait of a job ended that did not run: at the start of its attempt, or with this decision."""
    started_at = _moment(event, "started_at") or decision.row.started_at
    return now if started_at is None else min(max(started_at, before.updated_at), now)


def _verdict_wait(event: Event[Any], now: datetime, attempt: int) -> list[JobInterval]:
    """The time from the end of a handler until its outcome is judged: ledger, report and status queue."""
    finished_at = _moment(event, "finished_at")
    if finished_at is None:
        return []
    return [JobInterval(IntervalCause.VERDICT, finished_at, max(now, finished_at), attempt)]


def _moment(event: Event[Any], name: str) -> datetime | None:
    found: datetime | None = getattr(event.data, name, None)
    return found

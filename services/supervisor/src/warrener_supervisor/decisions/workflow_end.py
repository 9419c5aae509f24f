"""Decide the next step of a workflow's end: cancel its children, undo its calls, newest first, end. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from warrener_contracts import events
from warrener_contracts.identity import undo_job_id, undo_source
from warrener_contracts.journals import all_calls
from warrener_contracts.policy import OnFailure
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.incidents.rows import RaisedIncident
from warrener_store.jobs.rows import JobRow, evolve
from warrener_store.workflows.rows import ChildEnd, ChildStatus, TurnRow
from warrener_supervisor.decisions.cause import fingerprint
from warrener_supervisor.decisions.context import JobTransition
from warrener_supervisor.decisions.outcomes import notifications_for
from warrener_supervisor.decisions.signals import supervisor_event

UNDO_FAILED = "workflow.undo_failed"
"""The kind of the incident that a job which undoes a call has ended without success."""
UNDO_MISSING = "workflow.undo_missing"
"""The kind of the incident that a job which undoes a call is requested and does not come."""
_NAMED = 10  # calls that the reason of an end names


@dataclass(frozen=True, slots=True)
class CancelChildren:
    """Request the cancels of these jobs, and wait for the ends of all children."""

    job_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class UndoCall:
    """Request the job that undoes this call, and wait for its end. It may have been requested since then."""

    call: events.Call
    since: datetime


@dataclass(frozen=True, slots=True)
class AwaitUndo:
    """Wait for the job that undoes a call."""


@dataclass(frozen=True, slots=True)
class FinishEnd:
    """End the job: these calls were undone, and these could not be."""

    undone: tuple[events.Call, ...] = ()
    failed: tuple[tuple[events.Call, ChildStatus], ...] = ()
    last_end: datetime | None = None  # of its children and undos


EndStep = CancelChildren | UndoCall | AwaitUndo | FinishEnd


def undos_of_end(row: JobRow, turns: Sequence[TurnRow]) -> list[UUID]:
    """Return the ids of the jobs that undo calls. None is requested before all children have ended."""
    return [
        undo_job_id(row.job_id, call.undo_key)
        for call in all_calls(turns)
        if call.job_id is not None and call.undo is not None
    ]


def next_step(
    row: JobRow, turns: Sequence[TurnRow], jobs: Mapping[UUID, ChildStatus], running: Collection[UUID]
) -> EndStep:
    """Return the next step. `jobs` are those that exist of `running`, of the calls and of `undos_of_end`:
    retention spares the children of a job that has not ended.

    `running` are all children that have not ended, also those of a turn whose suspension has never come.

    The job may be over: then a turn was reported late, as that of a job which was cancelled in its queue
    while its first turn ran, or an earlier turn has succeeded, and nothing is undone. A request that is on
    its way meets the mark of the tree, and nothing waits for it; detached children are left alone.
    """
    over = row.state.terminal
    calls = [call for call in all_calls(turns) if call.job_id is not None]
    detached = {call.job_id for call in calls if call.detached}
    if over:
        calls = [call for call in calls if not call.detached]
    theirs = {
        call.job_id
        for call in calls
        if call.job_id is not None
        and not _has_ended(jobs.get(call.job_id))
        and not (over and call.job_id not in jobs)
    }
    if left := sorted((theirs | set(running)) - detached):
        return CancelChildren(tuple(each for each in left if not _is_cancelled(jobs.get(each))))
    if row.state is JobState.SUCCEEDED:
        return FinishEnd()
    last_end = _last_end(row, calls, jobs)
    undone: list[events.Call] = []
    failed: list[tuple[events.Call, ChildStatus]] = []
    for call in reversed(calls):
        child = jobs.get(call.job_id) if call.job_id is not None else None
        if call.undo is None or child is None or not child.attempt or not _has_ended(child):
            continue  # nothing was done, or a detached one goes on; one that died may have had an effect
        undo = jobs.get(undo_job_id(row.job_id, call.undo_key))
        if undo is None:
            return UndoCall(call, max(last_end or row.updated_at, row.updated_at))
        if not undo.state.terminal:
            return AwaitUndo()
        if undo.state is JobState.SUCCEEDED:
            undone.append(call)
        else:
            failed.append((call, undo))
    return FinishEnd(tuple(undone), tuple(failed), last_end)


def _last_end(row: JobRow, calls: Iterable[events.Call], jobs: Mapping[UUID, ChildStatus]) -> datetime | None:
    """The time of the end that was waited for last. The end of the job has it too: it is published before it
    is saved, so all supervisors that publish it must publish the same."""
    ids = [
        each
        for call in calls
        if not call.detached
        for each in (call.job_id, undo_job_id(row.job_id, call.undo_key))
        if each is not None
    ]
    ends = [jobs[each].finished_at for each in ids if each in jobs]
    return max((end for end in ends if end is not None), default=None)


def _has_ended(child: ChildStatus | None) -> bool:
    return child is not None and child.state.terminal


def _is_cancelled(child: ChildStatus | None) -> bool:
    """True if the cancel has come; without a job it leaves a tombstone, so a late request runs nothing."""
    return child is not None and child.cancel_requested


def end_of_excess(row: JobRow, excess: str, now: datetime) -> JobRow:
    """Begin the end of a workflow whose journal is too large, or hold it."""
    error = events.ErrorInfo(
        kind=events.ErrorKind.ERROR, type="JournalTooLarge", message=excess, retryable=False
    )
    return evolve(
        row,
        version=row.version + 1,
        ending=None if row.policy.on_failure is OnFailure.HOLD else JobState.DEAD,
        ending_reason=excess,
        error=error,
        wake_at=now,
        updated_at=now,
    )


def child_cancel(row: JobRow, child: UUID, reason: str, now: datetime) -> events.JobCancelRequested:
    """Make the cancel of a child job."""
    data = events.JobCancelRequestedData(job_id=child, reason=reason)
    trace = row.traceparent, row.tracestate
    return supervisor_event(
        events.JobCancelRequested, f"{child}:workflow_ended", str(child), now, data, trace=trace
    )


def undo_request(row: JobRow, call: events.Call, now: datetime) -> events.JobRequested:
    """Make the request of the job that undoes `call`."""
    assert call.undo is not None
    job_id, undo = str(undo_job_id(row.job_id, call.undo_key)), call.undo
    return events.JobRequested(
        id=job_id,
        source=undo_source(row.job_id),
        time=now,
        subject=job_id,
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=events.JobRequestedData(
            job_type=undo.job_type, arguments=undo.arguments, queue=undo.queue, parent_id=row.job_id
        ),
    )


def finished(row: JobRow, end: FinishEnd, now: datetime) -> JobTransition:
    """End the job as it was decided when its end began; its error and reason say what was undone."""
    assert row.ending is not None
    summary = _summary(end)
    reason = "; ".join(filter(None, [row.ending_reason, summary]))
    at = max(row.updated_at, end.last_end or row.updated_at)
    over = evolve(
        row,
        version=row.version + 1,
        state=row.ending,
        ending=None,
        ending_reason=reason,
        wake_at=None,
        finished_at=at,
        updated_at=now,
    )
    dead_letter = None
    match row.ending:
        case JobState.CANCELLED:
            over = evolve(over, cancel_reason=reason)
        case JobState.DEAD:
            error = row.error
            if error is not None and summary:
                error = error.model_copy(update={"message": f"{error.message}; {summary}"})
            over = evolve(over, error=error)
            dead_letter = DeadLetter(
                job_id=row.job_id,
                job_type=row.job_type,
                attempts=row.tries,
                reason=reason,
                error=error,
                died_at=at,
                fingerprint=fingerprint(row.job_type, error),
            )
        case _:
            if summary:
                error = events.ErrorInfo(
                    kind=events.ErrorKind.ERROR, type=row.ending.value, message=reason, retryable=False
                )
                over = evolve(over, error=error)
    return JobTransition(
        over, row.ending.value, dead_letter=dead_letter, notifications=notifications_for(row.ending, None)
    )


def failed_undos(
    row: JobRow, end: FinishEnd, ends: Mapping[UUID, ChildEnd], now: datetime
) -> list[RaisedIncident]:
    """Return an incident for each call that could not be undone. `ends` say why, as far as they are read."""
    return [
        _incident(
            UNDO_FAILED,
            row,
            call,
            f"workflow {row.job_id} has ended, and its call of {call.name} (job {call.job_id}) is not "
            f"undone: job {undo.job_id} of type {_undo_type(call)} is {undo.state.value}: "
            f"{_why(ends.get(undo.job_id))[:500]}",
            now,
        )
        for call, undo in end.failed
    ]


def missing_undo(row: JobRow, call: events.Call, now: datetime) -> RaisedIncident:
    """Return the incident that the job which undoes `call` does not come: its request may be parked."""
    return _incident(
        UNDO_MISSING,
        row,
        call,
        f"the end of workflow {row.job_id} waits: job {undo_job_id(row.job_id, call.undo_key)} of type "
        f"{_undo_type(call)}, which undoes its call of {call.name} (job {call.job_id}), was requested and is "
        "not there: is its job type declared? `warrener parked` lists requests that were not accepted",
        now,
    )


def _incident(kind: str, row: JobRow, call: events.Call, text: str, now: datetime) -> RaisedIncident:
    undo = str(undo_job_id(row.job_id, call.undo_key))
    return RaisedIncident(
        kind=kind,
        fingerprint=f"{kind}:{row.job_type}:{call.name}"[:200],
        occurrence=undo,
        subject=str(row.job_id),
        job_type=row.job_type,
        sample={"text": text, "undo_job": undo},
        raised_at=now,
    )


def _undo_type(call: events.Call) -> str:
    return "" if call.undo is None else call.undo.job_type


def _why(undo: ChildEnd | None) -> str:
    if undo is None:
        return "see there"
    return undo.error.message if undo.error is not None else undo.cancel_reason or "its deadline has passed"


def _summary(end: FinishEnd) -> str:
    parts = [
        ("undone", [call.name for call in end.undone]),
        ("could not be undone", [call.name for call, _ in end.failed]),
    ]
    return "; ".join(f"{what}: {_names(calls)}" for what, calls in parts if calls)


def _names(calls: Iterable[str]) -> str:
    names = list(calls)
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{rest}"

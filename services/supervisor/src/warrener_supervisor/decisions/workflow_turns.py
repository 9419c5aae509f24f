"""Decide what the next turn of a suspended workflow is given, or until when it waits. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import (
    MAX_ANSWER,
    Answer,
    Call,
    CallKind,
    ErrorInfo,
    ErrorKind,
    MemberFailure,
    MembersEnd,
    Suspension,
)
from warrener_contracts.journals import answers_by_call, next_timer, open_calls
from warrener_contracts.private_payloads import encrypted_key
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import MAX_MESSAGE
from warrener_store.jobs.rows import JobRow, evolve
from warrener_store.workflows.rows import (
    ChildEnd,
    ChildStatus,
    SignalRow,
    StoredTurn,
    TurnRow,
    WaitKind,
    WaitRow,
)

LOOK_AGAIN, _LONGEST_PAUSE = timedelta(minutes=15), timedelta(hours=4)
"""Pauses before a suspended workflow is looked at, even if nothing has woken it: each as long as it has
waited by then."""
MAX_DISPATCH = MAX_MESSAGE - 64 * 1024
"""Bytes of a dispatch with its arguments and its journal: agents refuse more than MAX_MESSAGE, and a repeat
may be a little longer."""
MAX_MEMBERS_END, MAX_MEMBERS_ENDS = 32 * 1024, 256 * 1024
"""Bytes of the results of a batch, and of the journal behind which it gets neither results nor failures of
batches, but their counts."""
_MAX_AWAITED = 10  # child jobs of a suspension that are looked at without its journal
_MAX_MESSAGE = 300  # characters of an error of one of many
MAX_ANSWERS = 2 * 1024 * 1024
"""Bytes of JSON of the ends with which a turn begins; the others come with the next one."""


def is_stored(row: JobRow, turns: Sequence[StoredTurn | TurnRow]) -> bool:
    """True if the store has all suspensions that were judged. The last one may be on its way."""
    return sum(one.suspension is not None for one in turns) >= row.suspensions


def without_lost(row: JobRow, turns: Sequence[StoredTurn | TurnRow]) -> JobRow:
    """Forget a suspension that is lost: the workflow goes on from what is stored, or ends."""
    return evolve(row, suspensions=sum(one.suspension is not None for one in turns))


def next_turn(
    row: JobRow,
    turns: Sequence[TurnRow],
    signals: Iterable[SignalRow],
    children: Mapping[UUID, ChildEnd],
    now: datetime,
    *,
    members: Iterable[Answer] = (),
) -> TurnRow | datetime:
    """Return the turn to dispatch, or when to look again if nothing is there yet.

    `turns` are those of the job with all calls that are open (`open_turns`); `children` are the ends of its
    open calls, `members` the answers of its maps and pages. A turn that another supervisor has begun to make
    is made with the answers that it has stored.
    After a suspension that was lost the body makes its calls again, under the same ids.
    """
    if row.is_held:
        return now + LOOK_AGAIN
    attempt = row.attempt + 1
    begun = next((one for one in turns if one.attempt == attempt), None)
    if begun is not None:
        return begun
    suspended = next((one.suspension for one in turns if one.attempt == row.attempt), None)
    if suspended is None or suspended.continued is not None:
        return TurnRow(job_id=row.job_id, attempt=attempt, began_at=now)
    began, waiting = max(_moments(turns), default=now), open_calls(turns)
    found = sorted(
        (*_of_children(waiting, children), *_of_signals(waiting, turns, signals), *members),
        key=lambda one: one.at,
    )
    # At its own time: a job that ended just before a timeout was in time, however late its turn is made.
    answers = tuple(one.model_copy(update={"at": max(began, one.at)}) for one in found)
    answered = {one.call_id for one in answers}
    again = now + min(max(LOOK_AGAIN, now - row.updated_at), _LONGEST_PAUSE)
    if any(call.retry_of is not None and call.call_id not in answered for call in waiting):
        return again
    is_retry = any(call.retry_of is not None for call in suspended.calls)
    if not (answers or suspended.answers or is_retry):  # no step has ended either
        timer = next_timer(turns)
        if timer is None or timer[0] > now:
            return again if timer is None else min(again, timer[0])
        answers = (Answer(at=max(now, began)),)
    return TurnRow(job_id=row.job_id, attempt=attempt, answers=answers, began_at=now)


def awaited_at_once(suspension: Suspension, now: datetime) -> list[UUID] | None:
    """Return the child jobs that a workflow awaits which has just suspended; None if it takes its journal to
    know them, or if the next turn is due."""
    jobs = [call.job_id for call in suspension.calls if call.job_id is not None]
    is_due = suspension.wake_at is not None and suspension.wake_at <= now
    return jobs if suspension.awaits_these and not is_due and len(jobs) <= _MAX_AWAITED else None


def first_look(suspension: Suspension, now: datetime) -> datetime:
    """Return when to look at a workflow that has just suspended, if nothing wakes it."""
    if awaited_at_once(suspension, now) is None:
        return now
    return min(now + LOOK_AGAIN, suspension.wake_at or now + LOOK_AGAIN)


def wait_of(row: JobRow, turns: Sequence[TurnRow]) -> WaitRow:
    """Return the wait of a suspended workflow."""
    kind = WaitKind.TIMER
    if row.ending is not None or row.is_held:
        kind = WaitKind.HELD if row.ending is None else WaitKind.END
    else:
        waiting = {call.kind for call in open_calls(turns)}
        if waiting & {CallKind.JOB, CallKind.MAP}:
            kind = WaitKind.CHILD
        elif CallKind.SIGNAL in waiting:
            kind = WaitKind.SIGNAL
    return WaitRow(job_id=row.job_id, kind=kind, since=row.updated_at)


def dispatch_excess(size: int) -> str | None:
    """Explain why a dispatch of so many bytes cannot go out; None if it can."""
    if size <= MAX_DISPATCH:
        return None
    return (
        f"its arguments and its journal have {size} bytes of JSON, more than {MAX_DISPATCH}: let its jobs "
        "and steps return less, or split it into workflows that it calls"
    )


def awaited_jobs(turns: Sequence[TurnRow]) -> list[UUID]:
    """Return the ids of the child jobs that are awaited."""
    return [call.job_id for call in open_calls(turns) if call.job_id is not None]


def awaited_signals(turns: Sequence[TurnRow]) -> Counter[str]:
    """Count the calls that await a signal, by its name."""
    return Counter(call.name for call in open_calls(turns) if call.kind is CallKind.SIGNAL)


def received_signals(turns: Sequence[TurnRow]) -> set[str]:
    """Return the ids of the signals that calls were given."""
    return {one.signal_id for one in answers_by_call(turns).values() if one.signal_id is not None}


def dispatched_turn(row: JobRow, now: datetime) -> JobRow:
    """Return the row of a suspended workflow whose next turn is dispatched."""
    return evolve(
        row,
        version=row.version + 1,
        state=JobState.QUEUED,
        attempt=row.attempt + 1,
        wake_at=now + row.policy.start_timeout,
        dispatched_at=now,
        updated_at=now,
    )


def _moments(turns: Sequence[TurnRow]) -> Iterable[datetime]:
    """Yield the times that the workflow has seen: its time never goes back, whichever clock sets it."""
    for one in turns:
        yield from (answer.at for answer in one.answers)
        if one.suspension is not None:
            yield from (answer.at for answer in one.suspension.answers)
            if one.suspension.began_at is not None:
                yield one.suspension.began_at


def _of_children(waiting: Iterable[Call], children: Mapping[UUID, ChildEnd]) -> Iterable[Answer]:
    """Answer the calls whose jobs have ended, in the order of the calls."""
    for call in waiting:
        if call.job_id is not None and call.job_id in children:
            yield _of_child(call, children[call.job_id])


def _of_child(call: Call, child: ChildEnd) -> Answer:
    answer = Answer(call_id=call.call_id, at=child.finished_at, state=child.state)
    if child.state is not JobState.SUCCEEDED:
        return answer.model_copy(update={"error": _error_of(child)})
    if call.by_reference:
        return answer
    if child.result_size <= MAX_ANSWER:
        return answer.model_copy(update={"result": child.result})
    message = (
        f"expected a result of at most {MAX_ANSWER} bytes of JSON, got {child.result_size} of job "
        f"{child.job_id}: store it elsewhere and return where, or read it in a step"
    )
    error = ErrorInfo(kind=ErrorKind.BAD_RESULT, type="ResultTooLarge", message=message, retryable=False)
    return answer.model_copy(update={"error": error})


def members_end(
    jobs: Sequence[ChildStatus | None], ends: Mapping[UUID, ChildEnd], failures: int, room: int
) -> MembersEnd:
    """Return how the jobs of a batch ended, in the order of its items; those that have not count for nothing.

    `ends` are of the first that failed, of which `failures` are named, and of those that succeeded, as far as
    they were read: the results count if all were, and have at most `room` bytes together.
    """
    done = [(number, job) for number, job in enumerate(jobs) if job is not None and job.state.terminal]
    failed = [(number, job) for number, job in done if job.state is not JobState.SUCCEEDED]
    good = {job.job_id for _, job in done if job.state is JobState.SUCCEEDED}
    size = sum(ends[each].result_size for each in good & ends.keys())
    return MembersEnd(
        succeeded=len(good),
        failed=len(failed),
        failures=tuple(
            MemberFailure(number=number, state=job.state, error=_brief(ends.get(job.job_id)))
            for number, job in failed[:failures]
        ),
        results=tuple(ends[job.job_id].result if job and job.job_id in good else None for job in jobs)
        if good <= ends.keys() and size <= room
        else None,
    )


def _brief(child: ChildEnd | None) -> ErrorInfo | None:
    """The error of one of many."""
    error = None if child is None else _error_of(child)
    return error and error.model_copy(update={"message": error.message[:_MAX_MESSAGE]})


def _error_of(child: ChildEnd) -> ErrorInfo:
    """Return why a job did not succeed, without the observations, which would travel with each turn."""
    if child.state is JobState.CANCELLED:
        reason = child.cancel_reason or "its agent stopped it"
    elif child.error is None:
        reason = child.ending_reason or f"the job is {child.state.value}"
    else:
        stack = child.error.stack
        stack = stack if encrypted_key(stack) is not None else None  # it holds the message too
        return child.error.model_copy(update={"flight_record": None, "stack": stack})
    return ErrorInfo(kind=ErrorKind.ERROR, type=child.state.value, message=reason, retryable=False)


def _of_signals(
    waiting: Iterable[Call], turns: Sequence[TurnRow], signals: Iterable[SignalRow]
) -> Iterable[Answer]:
    """Give each open call of a signal, in order, the oldest of its name that none has received."""
    received = received_signals(turns)
    fresh: dict[str, list[SignalRow]] = {}
    for signal in signals:
        if signal.signal_id not in received:
            fresh.setdefault(signal.name, []).append(signal)
    for call in waiting:
        if call.kind is CallKind.SIGNAL and fresh.get(call.name):
            signal = fresh[call.name].pop(0)
            yield Answer(
                call_id=call.call_id, at=signal.received_at, result=signal.data, signal_id=signal.signal_id
            )

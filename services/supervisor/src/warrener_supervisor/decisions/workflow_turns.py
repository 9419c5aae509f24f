"""Decide what the next turn of a suspended workflow is given, or until when it waits. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import MAX_ANSWER, Answer, Call, CallKind, ErrorInfo, ErrorKind
from warrener_contracts.journals import answers_by_call, next_timer, open_calls
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import MAX_MESSAGE
from warrener_store.jobs.rows import JobRow, evolve
from warrener_store.workflows.rows import ChildEnd, SignalRow, TurnRow

LOOK_AGAIN, _LONGEST_PAUSE = timedelta(minutes=15), timedelta(hours=4)
"""Pauses before a suspended workflow is looked at, even if nothing has woken it: each as long as it has
waited by then."""
MAX_DISPATCH = MAX_MESSAGE - 64 * 1024
"""Bytes of a dispatch with its arguments and its journal: agents refuse more than MAX_MESSAGE, and a repeat
may be a little longer."""
MAX_ANSWERS = 2 * 1024 * 1024
"""Bytes of JSON of the ends with which a turn begins; the others come with the next one."""


def is_stored(row: JobRow, turns: Sequence[TurnRow]) -> bool:
    """True if the store has all suspensions that were judged. The last one may be on its way."""
    return sum(one.suspension is not None for one in turns) >= row.suspensions


def without_lost(row: JobRow, turns: Sequence[TurnRow]) -> JobRow:
    """Forget a suspension that is lost: the workflow goes on from what is stored, or ends."""
    return evolve(row, suspensions=sum(one.suspension is not None for one in turns))


def next_turn(
    row: JobRow,
    turns: Sequence[TurnRow],
    signals: Iterable[SignalRow],
    children: Mapping[UUID, ChildEnd],
    now: datetime,
) -> TurnRow | datetime:
    """Return the turn to dispatch, or when to look again if nothing is there yet.

    `turns` are all of the job; `children` are the ends of its open calls. A turn that another supervisor has
    begun to make is made with the answers that it has stored. After a suspension that was lost the body makes
    its calls again, under the same ids.
    """
    if row.is_held:
        return now + LOOK_AGAIN
    attempt = row.attempt + 1
    begun = next((one for one in turns if one.attempt == attempt), None)
    if begun is not None:
        return begun
    suspended = next((one.suspension for one in turns if one.attempt == row.attempt), None)
    if suspended is None:
        return TurnRow(job_id=row.job_id, attempt=attempt, began_at=now)
    began, waiting = max(_moments(turns), default=now), open_calls(turns)
    found = sorted(
        (*_of_children(waiting, children), *_of_signals(waiting, turns, signals)), key=lambda one: one.at
    )
    # At its own time: a job that ended just before a timeout was in time, however late its turn is made.
    answers = tuple(one.model_copy(update={"at": max(began, one.at)}) for one in found)
    if not answers and not suspended.answers:  # no step has ended either
        timer = next_timer(turns)
        if timer is None or timer[0] > now:
            again = now + min(max(LOOK_AGAIN, now - row.updated_at), _LONGEST_PAUSE)
            return again if timer is None else min(again, timer[0])
        answers = (Answer(at=max(now, began)),)
    return TurnRow(job_id=row.job_id, attempt=attempt, answers=answers, began_at=now)


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
    if child.result_size <= MAX_ANSWER:
        return answer.model_copy(update={"result": child.result})
    message = (
        f"expected a result of at most {MAX_ANSWER} bytes of JSON, got {child.result_size} of job "
        f"{child.job_id}: store it elsewhere and return where, or read it in a step"
    )
    error = ErrorInfo(kind=ErrorKind.BAD_RESULT, type="ResultTooLarge", message=message, retryable=False)
    return answer.model_copy(update={"error": error})


def _error_of(child: ChildEnd) -> ErrorInfo:
    """Return why a job did not succeed, without the observations, which would travel with each turn."""
    if child.state is JobState.CANCELLED:
        reason = child.cancel_reason or "its agent stopped it"
    elif child.error is None:
        reason = child.ending_reason or f"the job is {child.state.value}"
    else:
        return child.error.model_copy(update={"flight_record": None, "stack": None})
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

"""Readings of the turns of one job, which come by attempt: the same for the supervisor, the console and the
test kit. Pure, and without the events: lists import it."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from warrener_contracts.events import Answer, Call, PageSize, StepRetry, Suspension


class RecordedTurn(Protocol):
    """A turn: a row of the store, or one of a journal."""

    @property
    def answers(self) -> "tuple[Answer, ...]": ...

    @property
    def suspension(self) -> "Suspension | None": ...


def all_calls(turns: Sequence[RecordedTurn]) -> "list[Call]":
    """All calls in the order in which they were made, without the markers of changed code and without
    signals that were sent: those have no end. A call that was requested again stands there once for each of
    its child jobs."""
    calls = (call for one in turns if one.suspension is not None for call in one.suspension.calls)
    return [call for call in calls if call.kind.value not in {"marker", "send"}]


def current_calls(turns: Sequence[RecordedTurn]) -> "dict[str, Call]":
    """Each call by its id, in their order, with the child job that was requested last."""
    return {call.call_id: call for call in all_calls(turns)}


def is_retry(turn: RecordedTurn) -> bool:
    """True if the turn did not suspend but failed, and calls of it or before it were requested again."""
    return turn.suspension is not None and any(call.retry_of is not None for call in turn.suspension.calls)


def answers_by_call(turns: Sequence[RecordedTurn]) -> "dict[str, Answer]":
    """The answer of each call that has one, in the order in which the workflow is given them. A call that is
    requested again has none until its new child job has ended."""
    found: dict[str, Answer] = {}
    for one in turns:
        of_steps = () if one.suspension is None else one.suspension.answers
        for answer in (*one.answers, *of_steps):
            if answer.call_id is not None:
                found.setdefault(answer.call_id, answer)
        for call in () if one.suspension is None else one.suspension.calls:
            if call.retry_of is not None:
                found.pop(call.call_id, None)
    return found


def open_calls(turns: Sequence[RecordedTurn]) -> "list[Call]":
    """The calls that are awaited: they have no answer, and none of the turns has closed them."""
    ended = set(answers_by_call(turns))
    ended.update(*(one.suspension.closed for one in turns if one.suspension is not None))
    return [call for call in current_calls(turns).values() if call.call_id not in ended]


def replayed_answers(turns: Sequence[RecordedTurn]) -> "list[tuple[Answer, ...]]":
    """The answers of each turn as the body is given them: that of a call that was requested again has the
    place and the time of the failure which it takes back."""
    if not any(map(is_retry, turns)):
        return [one.answers for one in turns]
    retried = {call.call_id for call in all_calls(turns) if call.retry_of is not None}
    last = {call_id: one for call_id, one in answers_by_call(turns).items() if call_id in retried}
    found: list[tuple[Answer, ...]] = []
    for turn in turns:
        answers: list[Answer] = []
        for answer in turn.answers:
            if answer.call_id is None or answer.call_id not in retried:
                answers.append(answer)
            elif (new := last.pop(answer.call_id, None)) is not None:
                answers.append(new.model_copy(update={"at": answer.at}))
        found.append(tuple(answers))
    return found


def read_pages(turns: Sequence[RecordedTurn]) -> "list[tuple[Call, PageSize]]":
    """The pages that the turn which runs now reads: those that were answered since the last one, and those of
    steps that have not ended."""
    ends = [place for place, one in enumerate(turns, 1) if one.suspension is not None and not is_retry(one)]
    fresh = {answer.call_id for one in turns[ends[-1] if ends else 0 :] for answer in one.answers}
    fresh.update(call.page for call in open_calls(turns))
    answers = {call_id: one.page for call_id, one in answers_by_call(turns).items() if call_id in fresh}
    found = ((call, answers.get(call.call_id)) for call in all_calls(turns))
    return [(call, size) for call, size in found if size is not None]


def open_retries(turns: Sequence[RecordedTurn]) -> "dict[str, StepRetry]":
    """The last failure of each step that is tried again."""
    waiting = {call.call_id for call in open_calls(turns)}
    found = (retry for one in turns if one.suspension is not None for retry in one.suspension.retries)
    return {retry.call_id: retry for retry in found if retry.call_id in waiting}


class SentSignal(NamedTuple):
    """A signal that was sent to a job."""

    signal_id: str
    name: str
    received_at: datetime


def unawaited_signals(turns: Sequence[RecordedTurn], signals: Sequence[SentSignal]) -> list[SentSignal]:
    """The signals that no answer has used, and whose names no call awaits."""
    used = {answer.signal_id for one in turns for answer in one.answers}
    awaited = {call.name for call in open_calls(turns) if call.kind.value == "signal"}
    return [one for one in signals if one.signal_id not in used and one.name not in awaited]


def next_timer(turns: Sequence[RecordedTurn]) -> tuple[datetime, str] | None:
    """When the next timer is due, and the line that waits for it; None if there is none, or the next turn has
    begun."""
    last = turns[-1].suspension if turns else None
    if last is None or last.wake_at is None:
        return None
    return last.wake_at, last.timer_line or ""

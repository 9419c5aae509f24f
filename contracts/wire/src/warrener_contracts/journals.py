"""Readings of the turns of one job, which come by attempt: the same for the supervisor, the console and the
test kit. Pure, and without the events: lists import it."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from warrener_contracts.events import Answer, Call, Suspension


class RecordedTurn(Protocol):
    """A turn: a row of the store, or one of a journal."""

    @property
    def answers(self) -> "tuple[Answer, ...]": ...

    @property
    def suspension(self) -> "Suspension | None": ...


def all_calls(turns: Sequence[RecordedTurn]) -> "list[Call]":
    """All calls in the order in which they were made, without the markers of changed code."""
    calls = (call for one in turns if one.suspension is not None for call in one.suspension.calls)
    return [call for call in calls if call.kind.value != "marker"]


def answers_by_call(turns: Sequence[RecordedTurn]) -> "dict[str, Answer]":
    """The answer of each call that has one, in the order in which the workflow is given them."""
    found: dict[str, Answer] = {}
    for one in turns:
        of_steps = () if one.suspension is None else one.suspension.answers
        for answer in (*one.answers, *of_steps):
            if answer.call_id is not None:
                found.setdefault(answer.call_id, answer)
    return found


def open_calls(turns: Sequence[RecordedTurn]) -> "list[Call]":
    """The calls that are awaited: they have no answer, and none of the turns has closed them."""
    ended = set(answers_by_call(turns))
    ended.update(*(one.suspension.closed for one in turns if one.suspension is not None))
    return [call for call in all_calls(turns) if call.call_id not in ended]


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

"""The judge: what an event means for a job. Pure; `effect_of` says what may happen, policy chooses among
it."""

from collections.abc import Callable, Mapping
from typing import Any

from warrener_contracts import state_machine
from warrener_contracts.events import Event, JobCancelRequested, Reason
from warrener_contracts.state_machine import Fence, Signal, Effect, Transition
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow
from warrener_supervisor import beginnings, ends, poison, timeouts, trials
from warrener_supervisor.moment import Moment
from warrener_supervisor.overtaken import overtaken
from warrener_supervisor.signals import attempt_of, fence_of, signal_of
from warrener_supervisor.verdicts import NOTHING, Ignored, Judgement, Parked, Ruling, Tell


def judge(row: JobRow, event: Event[Any], at: Moment) -> Ruling:
    """What `event` does to the job that is now as `row`.

    A judgement's state is always one that the journey allows for this state, signal and fence.
    """
    signal, where = signal_of(event), fence_of(row, event)
    step = state_machine.effect_of(row.state, signal, where)
    if isinstance(step, state_machine.Reject):
        return Parked(Reason.IMPOSSIBLE, _contradiction(row, event, step.why))
    if where is Fence.OLDER and (spared := trials.not_lost(row, event, at)) is not None:
        if isinstance(step, state_machine.Ignore):
            return spared._replace(tells=_told_again(row, signal, where, event))
        row = spared.row  # and its success ends the job
    if isinstance(step, state_machine.Ignore):
        return Ignored(step.why, _told_again(row, signal, where, event), _late_asker(event))
    if why := overtaken(row, event, at):
        return Ignored(why, _told_again(row, signal, where, event))
    ruling = poison.remembered(row, _DECIDE[signal](row, event, at))
    assert isinstance(ruling, Ignored) or _allowed(step, ruling.row.state), (row.state, signal, ruling)
    return ruling


_DECIDE: Mapping[Signal, Callable[[JobRow, Any, Moment], Judgement | Ignored]] = {
    Signal.ALIVE: beginnings.alive,
    Signal.SUCCEEDED: ends.succeeded,
    Signal.FAILED: trials.failed,
    Signal.SNOOZED: trials.snoozed,
    Signal.STOPPED: trials.stopped,
    Signal.WITHDRAWN: trials.withdrawn,
    Signal.RELEASED: trials.released,
    Signal.TIMED_OUT: timeouts.told_to_stop,
    Signal.LOST: trials.lost,
    Signal.OVERDUE: beginnings.queued_again,
    Signal.CANCEL_REQUESTED: ends.cancel_requested,
    Signal.DEADLINE_PASSED: ends.expired,
}


def _allowed(step: Effect, state: JobState) -> bool:
    return isinstance(step, Transition) and state in step.states


def _contradiction(row: JobRow, event: Event[Any], why: str) -> str:
    return (
        f"{why}: {event.type} tells of attempt {attempt_of(event) or '-'}, but the job is {row.state.value} "
        f"with attempt {row.attempt}"
    )


_BRINGS_ABOUT: Mapping[Signal, frozenset[JobState]] = {
    signal: frozenset(
        state
        for (_, of), step in state_machine.STATE_MACHINE.items()
        if of is signal and isinstance(step, Transition)
        for state in step.states
    )
    for signal in Signal
}


_NOTHING_WRONG = frozenset({Signal.RELEASED, Signal.SNOOZED})
"""After these another attempt is made, and the world is told of no retry."""


def _told_again(row: JobRow, signal: Signal, where: Fence, event: Event[Any]) -> frozenset[Tell]:
    """What this event has brought about, if it has: whoever saved it may have died before saying so.

    Said twice does no harm: receivers tell repeats by the event's id, agents by the ledger.
    """
    if row.state not in _BRINGS_ABOUT[signal]:
        return NOTHING
    if row.state.terminal:
        counts = where is Fence.CURRENT or signal is Signal.SUCCEEDED
        by_this = counts and (signal is not Signal.ALIVE or beginnings.has_ended(row, event))
        return ends.tidings(row.state, signal) if by_this else NOTHING
    if row.state not in (JobState.QUEUED, JobState.RETRYING) or signal is Signal.OVERDUE:
        return NOTHING  # a dispatch that was not published is found by the comparison with the queue
    if where is Fence.OLDER and attempt_of(event) != row.attempt - 1:
        return NOTHING
    if row.state is JobState.RETRYING and signal not in _NOTHING_WRONG:
        return frozenset({Tell.DISPATCH, Tell.RETRYING})
    return frozenset({Tell.DISPATCH})


def _late_asker(event: Event[Any]) -> str | None:
    return event.data.reply_to if isinstance(event, JobCancelRequested) else None

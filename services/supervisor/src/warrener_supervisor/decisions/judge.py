"""Judge events about jobs: find what the state machine allows, and let policy choose among it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warrener_contracts import state_machine
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.events import Event, Reason
from warrener_contracts.state_machine import Fence, JobState, Signal, Transition
from warrener_store.jobs.rows import JobRow, evolve
from warrener_supervisor.decisions import outcomes, poison, retries, starts, suspensions, timeouts
from warrener_supervisor.decisions.context import (
    NO_NOTIFICATIONS,
    JobTransition,
    JudgeContext,
    JudgeDecision,
    NoChange,
    Notification,
    ParkDecision,
)
from warrener_supervisor.decisions.signals import attempt_of, fence_of, signal_of, stale_reason


class JudgedEvent(NamedTuple):
    """An event to judge, the chance drawn for it, and the message it was read from, if there was one, with
    the broker's user that sent it."""

    event: Event[Any]
    chance: float
    origin: DecodedEvent | None = None
    user_id: str | None = None


@dataclass(slots=True)
class JobBatch:
    """The decisions about one job's events in one batch, and the saves that carry them out.

    There is one save, plus one for each further attempt that ended in the same batch.
    """

    row: JobRow
    saves: list[JobTransition] = field(default_factory=list[JobTransition])
    decisions: list[tuple[JudgedEvent, JudgeDecision]] = field(
        default_factory=list[tuple[JudgedEvent, JudgeDecision]]
    )
    notifications: set[Notification] = field(default_factory=set[Notification])
    first: JobRow = field(init=False)
    """The job before the batch."""

    def __post_init__(self) -> None:
        self.first = self.row

    def add(self, entry: JudgedEvent, decision: JudgeDecision) -> None:
        """Add the next decision."""
        self.decisions.append((entry, decision))
        if isinstance(decision, ParkDecision):
            return
        self.notifications |= decision.notifications
        if isinstance(decision, NoChange):
            return
        last = self.saves[-1] if self.saves else None
        if last is None or (last.attempt is not None and decision.attempt is not None):
            self.row = _numbered(decision.row, self.row.version + 1)
            self.saves.append(decision._replace(row=self.row))
            return
        self.row = _numbered(decision.row, last.row.version)
        self.saves[-1] = decision._replace(row=self.row, attempt=last.attempt or decision.attempt)


def _numbered(row: JobRow, version: int) -> JobRow:
    """Set the version. A row is large, so it is copied only if the version differs."""
    return row if row.version == version else evolve(row, version=version)


def judge_all(row: JobRow, entries: Iterable[JudgedEvent], context: JudgeContext) -> JobBatch:
    """Judge `entries` in order, starting with the job as `row`."""
    batch = JobBatch(row)
    for entry in entries:
        batch.add(entry, judge(batch.row, entry.event, context._replace(chance=entry.chance)))
    return batch


def judge(row: JobRow, event: Event[Any], context: JudgeContext) -> JudgeDecision:
    """Decide what `event` changes about the job of `row`.

    The state machine allows the state of a returned transition for this state, signal and fence.
    """
    signal, where = signal_of(event), fence_of(row, event)
    step = state_machine.effect_of(row.state, signal, where)
    if isinstance(step, state_machine.Reject):
        return ParkDecision(
            Reason.IMPOSSIBLE,
            f"{step.why}: {event.type} is about attempt {attempt_of(event) or '-'}, but the job is "
            f"{row.state.value} with attempt {row.attempt}",
        )
    if where is Fence.OLDER and (spared := retries.revoke_loss(row, event, context)) is not None:
        if isinstance(step, state_machine.Ignore):
            return spared._replace(notifications=_repeated_notifications(row, signal, where, event))
        row = spared.row  # and its success ends the job
    if isinstance(step, state_machine.Ignore):
        return NoChange(step.why, _repeated_notifications(row, signal, where, event))
    if why := suspensions.ends_already(row) or stale_reason(row, event, context):
        return NoChange(why, _repeated_notifications(row, signal, where, event))
    decision = poison.keep_deaths(row, _DECIDE[signal](row, event, context))
    decision = suspensions.begin_end(decision, context.now)
    assert isinstance(decision, NoChange) or decision.row.state in step.states, (row.state, signal, decision)
    return decision


_DECIDE: Mapping[Signal, Callable[[JobRow, Any, JudgeContext], JobTransition | NoChange]] = {
    Signal.ALIVE: starts.on_sign_of_life,
    Signal.SUCCEEDED: outcomes.on_succeeded,
    Signal.SUSPENDED: suspensions.on_suspended,
    Signal.FAILED: retries.on_failed,
    Signal.SNOOZED: retries.on_snoozed,
    Signal.STOPPED: retries.on_stopped,
    Signal.WITHDRAWN: retries.on_withdrawn,
    Signal.RELEASED: retries.on_released,
    Signal.TIMED_OUT: timeouts.on_timed_out,
    Signal.LOST: retries.on_lost,
    Signal.START_TIMED_OUT: starts.on_overdue,
    Signal.CANCEL_REQUESTED: outcomes.on_cancel_requested,
    Signal.DEADLINE_PASSED: outcomes.on_deadline_passed,
}


_NEXT_TURN = frozenset({JobState.QUEUED})  # by the turn maker, which may have died before publishing it
_BRINGS_ABOUT: Mapping[Signal, frozenset[JobState]] = {
    signal: frozenset(
        state
        for (_, of), step in state_machine.STATE_MACHINE.items()
        if of is signal and isinstance(step, Transition)
        for state in step.states
    )
    | (_NEXT_TURN if signal is Signal.SUSPENDED else frozenset[JobState]())
    for signal in Signal
}


_NOTHING_WRONG = frozenset({Signal.RELEASED, Signal.SNOOZED})
"""After these signals another attempt follows without a `job.retrying`, because nothing went wrong."""


def _repeated_notifications(
    row: JobRow, signal: Signal, where: Fence, event: Event[Any]
) -> frozenset[Notification]:
    """Return what this event has brought about, because its first judge may have died between saving and
    publishing.

    A repeat does no harm: receivers recognise it by the event's id, agents by the ledger.
    """
    end = row.ending or row.state
    stop = frozenset({Notification.CANCEL}) if _may_run_on(row, end, signal, event) else NO_NOTIFICATIONS
    if row.state not in _BRINGS_ABOUT[signal]:
        return stop
    if end.terminal:
        counts = where is Fence.CURRENT or signal is Signal.SUCCEEDED
        by_this = counts and (signal is not Signal.ALIVE or starts.has_ended(row, event))
        repeated = outcomes.notifications_for(end, signal) if by_this else NO_NOTIFICATIONS
        return (repeated if row.state.terminal else repeated & suspensions.OF_A_BEGUN_END) | stop
    if row.state not in (JobState.QUEUED, JobState.RETRYING) or signal is Signal.START_TIMED_OUT:
        return NO_NOTIFICATIONS  # the comparison with the queue finds a dispatch that was not published
    if where is Fence.OLDER and attempt_of(event) != row.attempt - 1:
        return NO_NOTIFICATIONS
    if row.state is JobState.RETRYING and signal not in _NOTHING_WRONG:
        return frozenset({Notification.DISPATCH, Notification.RETRYING})
    return frozenset({Notification.DISPATCH})


def _may_run_on(row: JobRow, end: JobState, signal: Signal, event: Event[Any]) -> bool:
    """True if an agent may run or begin an attempt of a job that has ended: it must be notified."""
    if end is JobState.SUCCEEDED:
        return signal is Signal.ALIVE and row.agent_id not in (None, event.data.agent_id)
    if end not in suspensions.WITHOUT_SUCCESS:
        return False
    return signal is Signal.ALIVE or (signal is Signal.CANCEL_REQUESTED and end is not JobState.CANCELLED)

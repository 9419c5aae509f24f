"""The journey of a job as data: what every event does to a job in every state.

An event about an attempt is first compared with the job's current attempt (the fence): an event of an older
attempt is ignored unless it is a success, one of a newer attempt is impossible, because only the supervisor
makes attempts and it records them before it dispatches them. What is left stands in JOURNEY: for each pair of
state and signal a transition (to one of several states, which the judge chooses by policy), or ignored with
the reason, or impossible.
`docs/journey-of-a-job.md` is generated from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from warrener_contracts.states import TERMINAL, JobState

WAITING, QUEUED, RUNNING, RETRYING = JobState.WAITING, JobState.QUEUED, JobState.RUNNING, JobState.RETRYING
SUCCEEDED, DEAD, CANCELLED, EXPIRED = JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED, JobState.EXPIRED


class Signal(StrEnum):
    """What can happen to a job."""

    REQUESTED = "requested"  # the request came again
    DUE = "due"  # the time it waited for has come
    CANCEL_REQUESTED = "cancel_requested"
    DEADLINE_PASSED = "deadline_passed"
    OVERDUE = "overdue"  # queued longer than its start_timeout, or past the time of its retry
    ALIVE = "alive"  # started, progressed, or listed in a heartbeat
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SNOOZED = "snoozed"  # attempt.failed whose handler only asks to be run again later
    STOPPED = "stopped"  # attempt.cancelled
    WITHDRAWN = "withdrawn"  # attempt.cancelled by the handler itself
    RELEASED = "released"
    TIMED_OUT = "timed_out"
    LOST = "lost"


ATTEMPT_SIGNALS = frozenset(
    {
        Signal.OVERDUE,
        Signal.ALIVE,
        Signal.SUCCEEDED,
        Signal.FAILED,
        Signal.SNOOZED,
        Signal.STOPPED,
        Signal.WITHDRAWN,
        Signal.RELEASED,
        Signal.TIMED_OUT,
        Signal.LOST,
    }
)
"""The signals that carry an attempt number."""


class Fence(StrEnum):
    """An event's attempt, compared with the job's current one."""

    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"


@dataclass(frozen=True, slots=True)
class Transition:
    """The job goes to one of these states (its own among them: something about it changes)."""

    states: tuple[JobState, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Ignore:
    """Nothing changes, for this reason."""

    why: str


@dataclass(frozen=True, slots=True)
class Reject:
    """Cannot happen unless something is broken: the message is parked and an alarm is raised."""

    why: str


Effect = Transition | Ignore | Reject


def _transition(*states: JobState, why: str) -> Transition:
    return Transition(states, why)


_NO_ATTEMPT = Reject("no attempt has been dispatched yet")
_REPEAT = Ignore("a repeat of the request: it is answered with the state, and a dispatch is told again")
_TRIED_AGAIN = (
    "attempts are left: another one after a delay; none are left, it is too old, or no retry can mend it: "
    "dead; "
    "somebody asked to cancel it: cancelled"
)

_IN_FLIGHT: Mapping[Signal, Effect] = {
    Signal.REQUESTED: _REPEAT,
    Signal.ALIVE: _transition(RUNNING, why="its agent says that it runs"),
    Signal.SUCCEEDED: _transition(SUCCEEDED, why="the result of the current attempt"),
    Signal.FAILED: _transition(RETRYING, DEAD, CANCELLED, why=_TRIED_AGAIN),
    Signal.SNOOZED: _transition(
        RETRYING,
        DEAD,
        CANCELLED,
        why="its handler asks to be run again later: not charged, unless it has snoozed too often; too old, "
        "or then no attempt left: dead; somebody asked to cancel it: cancelled",
    ),
    Signal.STOPPED: _transition(
        CANCELLED, RETRYING, why="stopped because somebody asked; if nobody did: tried again"
    ),
    Signal.WITHDRAWN: _transition(CANCELLED, why="its handler has no more use for it"),
    Signal.RELEASED: _transition(
        RETRYING, CANCELLED, why="given back unharmed: tried again at once, uncharged; cancelled if asked for"
    ),
    Signal.TIMED_OUT: Ignore("it does not run: what ran too long has ended"),
    Signal.LOST: _transition(
        RETRYING, DEAD, CANCELLED, why="its agent is gone; tried elsewhere, counted as a loss"
    ),
    Signal.DEADLINE_PASSED: _transition(EXPIRED, why="it cannot finish in time any more"),
}

_WAITING: Mapping[Signal, Effect] = {
    **dict.fromkeys(ATTEMPT_SIGNALS, _NO_ATTEMPT),
    Signal.REQUESTED: _REPEAT,
    Signal.DUE: _transition(QUEUED, why="its time has come: attempt 1 is dispatched"),
    Signal.CANCEL_REQUESTED: _transition(CANCELLED, why="it has not begun"),
    Signal.DEADLINE_PASSED: _transition(EXPIRED, why="it cannot finish in time any more"),
    Signal.OVERDUE: Ignore("the scheduler watches what waits"),
}

_QUEUED: Mapping[Signal, Effect] = {
    **_IN_FLIGHT,
    Signal.DUE: Ignore("it is dispatched already"),
    Signal.CANCEL_REQUESTED: _transition(
        CANCELLED, why="no agent has said that it runs; those that hold it are told"
    ),
    Signal.OVERDUE: Ignore(
        "it waits longer than its start_timeout, which only names it: a backlog is not a loss, and a "
        "dispatch that is gone is found by comparing the store with the queue"
    ),
}

_RUNNING: Mapping[Signal, Effect] = {
    **_IN_FLIGHT,
    Signal.DUE: Ignore("it runs already"),
    Signal.ALIVE: _transition(
        RUNNING, DEAD, why="its agent says that it runs; it has ended too many agents before that one: dead"
    ),
    Signal.STOPPED: _transition(
        CANCELLED,
        RETRYING,
        DEAD,
        why="stopped because somebody asked; if nobody did: tried again; because it ran too long: tried "
        "again if attempts are left, else dead",
    ),
    Signal.TIMED_OUT: _transition(
        RUNNING, why="its agent is told to stop it; it is over when the agent says so, or names it no more"
    ),
    Signal.CANCEL_REQUESTED: _transition(
        RUNNING, why="its agent is told to stop it; it ends when the agent says so"
    ),
    Signal.OVERDUE: Ignore("it runs: its lease and its timeout are watched instead"),
}

_RETRYING: Mapping[Signal, Effect] = {
    **_IN_FLIGHT,
    Signal.DUE: _transition(QUEUED, why="its delay is over: the next attempt is dispatched"),
    Signal.CANCEL_REQUESTED: _transition(CANCELLED, why="the next attempt has not begun; agents are told"),
    Signal.OVERDUE: _transition(
        QUEUED,
        RETRYING,
        why="its time has passed: the same attempt is queued, and dispatched if its dispatch was kept in the "
        "store; while a circuit breaker is open it is put off",
    ),
}


_OVER: Mapping[JobState, str] = {
    SUCCEEDED: "the job has succeeded already",
    DEAD: "the job is dead already",
    CANCELLED: "the job is cancelled already",
    EXPIRED: "the job has expired already",
}


def _over(state: JobState) -> Mapping[Signal, Effect]:
    return dict.fromkeys(Signal, Ignore(_OVER[state]))


STATE_MACHINE: Mapping[tuple[JobState, Signal], Effect] = MappingProxyType(
    {
        (state, signal): step
        for state, steps in (
            (WAITING, _WAITING),
            (QUEUED, _QUEUED),
            (RUNNING, _RUNNING),
            (RETRYING, _RETRYING),
            *((state, _over(state)) for state in sorted(TERMINAL)),
        )
        for signal, step in steps.items()
    }
)
"""Complete: every pair of state and signal has one step."""

STALE = Ignore("the word of an earlier attempt: the fence refuses it")
LATE_SUCCESS = _transition(
    SUCCEEDED,
    why="an earlier attempt has succeeded: only a success that the ledger has recorded is published",
)
"""While the job is not over, this counts whatever attempt waits."""
UNKNOWN_ATTEMPT = Reject("the word of an attempt that was never made")


def compare_attempts(current: int, reported: int) -> Fence:
    """How the attempt that an event tells of stands to the job's current one."""
    if reported < current:
        return Fence.OLDER
    return Fence.CURRENT if reported == current else Fence.NEWER


def effect_of(state: JobState, signal: Signal, fence: Fence = Fence.CURRENT) -> Effect:
    """What `signal` does to a job in `state`."""
    if signal in ATTEMPT_SIGNALS:
        if fence is Fence.OLDER:
            late = signal is Signal.SUCCEEDED and isinstance(STATE_MACHINE[state, signal], Transition)
            return LATE_SUCCESS if late else STALE
        if fence is Fence.NEWER:
            return UNKNOWN_ATTEMPT
    return STATE_MACHINE[state, signal]

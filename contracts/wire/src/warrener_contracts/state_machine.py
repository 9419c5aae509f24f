"""The state machine of a job as data: the effect of every signal in every state.

A signal about an attempt is first compared with the job's current attempt (the fence). A signal of an older
attempt is ignored unless it is a success. One of a newer attempt is impossible, because only the supervisor
makes attempts and it records them before it dispatches them. For the rest, STATE_MACHINE holds for each pair
of state and signal a transition (to one of several states, chosen by policy), a reason to ignore the signal,
or its rejection as impossible. `docs/journey-of-a-job.md` is generated from this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class JobState(StrEnum):
    """The state of a job. The last four are terminal: never left."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED, JobState.EXPIRED})

WAITING, QUEUED, RUNNING, RETRYING = JobState.WAITING, JobState.QUEUED, JobState.RUNNING, JobState.RETRYING
SUSPENDED = JobState.SUSPENDED
SUCCEEDED, DEAD, CANCELLED, EXPIRED = JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED, JobState.EXPIRED


class Signal(StrEnum):
    """An occurrence that may change a job."""

    REQUESTED = "requested"  # the request was repeated
    DUE = "due"  # its waiting time is over
    CANCEL_REQUESTED = "cancel_requested"
    DEADLINE_PASSED = "deadline_passed"
    START_TIMED_OUT = "start_timed_out"  # queued longer than its start_timeout, or past the time of its retry
    ALIVE = "alive"  # started, progressed, or listed in a heartbeat
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SUSPENDED = "suspended"  # a turn of a workflow has ended
    SNOOZED = "snoozed"  # attempt.failed of a handler that requests another run
    STOPPED = "stopped"  # attempt.cancelled
    WITHDRAWN = "withdrawn"  # attempt.cancelled by the handler itself
    RELEASED = "released"
    TIMED_OUT = "timed_out"
    LOST = "lost"


ATTEMPT_SIGNALS = frozenset(
    {
        Signal.START_TIMED_OUT,
        Signal.ALIVE,
        Signal.SUCCEEDED,
        Signal.FAILED,
        Signal.SUSPENDED,
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
    """The attempt of a signal, compared with the job's current one."""

    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"


@dataclass(frozen=True, slots=True)
class Transition:
    """The job goes to one of these states. Its own state may be among them: other fields change then."""

    states: tuple[JobState, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Ignore:
    """The signal changes nothing, for this reason."""

    why: str


@dataclass(frozen=True, slots=True)
class Reject:
    """The signal is impossible unless something is broken: its message is parked and an alarm raised."""

    why: str


Effect = Transition | Ignore | Reject


def _transition(*states: JobState, why: str) -> Transition:
    return Transition(states, why)


def _ending(*states: JobState, why: str) -> Transition:
    """A transition that may end the job without success. A workflow with calls to undo is suspended first."""
    return Transition((*states, SUSPENDED), why)


_NO_ATTEMPT = Reject("no attempt has been dispatched yet")
_REPEAT = Ignore("a repeat of the request: the reply is the state; a redelivered one is dispatched again")
_TRIED_AGAIN = (
    "attempts are left: another one after a delay; none are left, it is too old, or no retry can mend it: "
    "dead; a cancel is pending: cancelled"
)

_IN_FLIGHT: Mapping[Signal, Effect] = {
    Signal.REQUESTED: _REPEAT,
    Signal.ALIVE: _transition(RUNNING, why="its agent reports that it runs"),
    Signal.SUCCEEDED: _transition(SUCCEEDED, why="the result of the current attempt"),
    Signal.SUSPENDED: _transition(SUSPENDED, why="a turn of a workflow has ended; it waits for its calls"),
    Signal.FAILED: _ending(RETRYING, DEAD, CANCELLED, why=_TRIED_AGAIN),
    Signal.SNOOZED: _ending(
        RETRYING,
        DEAD,
        CANCELLED,
        why="its handler requests another run later: not charged, unless it has snoozed too often; too old, "
        "or then no attempt left: dead; a cancel is pending: cancelled",
    ),
    Signal.STOPPED: _ending(CANCELLED, RETRYING, why="stopped by a cancel; without one: tried again"),
    Signal.WITHDRAWN: _ending(CANCELLED, why="its handler no longer needs it"),
    Signal.RELEASED: _ending(
        RETRYING,
        CANCELLED,
        why="given back unharmed: tried again at once, uncharged; cancelled if a cancel is pending",
    ),
    Signal.TIMED_OUT: Ignore("it does not run: the attempt that ran too long has ended"),
    Signal.LOST: _ending(
        RETRYING, DEAD, CANCELLED, why="its agent is gone; tried elsewhere, counted as a loss"
    ),
    Signal.DEADLINE_PASSED: _ending(EXPIRED, why="it can no longer finish in time"),
}

_WAITING: Mapping[Signal, Effect] = {
    **dict.fromkeys(ATTEMPT_SIGNALS, _NO_ATTEMPT),
    Signal.REQUESTED: _REPEAT,
    Signal.DUE: _transition(QUEUED, why="its waiting time is over: attempt 1 is dispatched"),
    Signal.CANCEL_REQUESTED: _transition(CANCELLED, why="it has not begun"),
    Signal.DEADLINE_PASSED: _transition(EXPIRED, why="it can no longer finish in time"),
    Signal.START_TIMED_OUT: Ignore("the scheduler watches waiting jobs"),
}

_QUEUED: Mapping[Signal, Effect] = {
    **_IN_FLIGHT,
    Signal.DUE: Ignore("it is dispatched already"),
    Signal.CANCEL_REQUESTED: _ending(
        CANCELLED, why="no agent has reported that it runs; agents are notified"
    ),
    Signal.START_TIMED_OUT: Ignore(
        "it waits longer than its start_timeout, which only reports it: a backlog is not a loss, and a "
        "missing dispatch is found by comparing the store with the queue"
    ),
}

_RUNNING: Mapping[Signal, Effect] = {
    **_IN_FLIGHT,
    Signal.DUE: Ignore("it runs already"),
    Signal.ALIVE: _ending(
        RUNNING,
        DEAD,
        why="its agent reports that it runs; it has ended too many agents before that one: dead",
    ),
    Signal.STOPPED: _ending(
        CANCELLED,
        RETRYING,
        DEAD,
        why="stopped by a cancel; without one: tried again; because it ran too long: tried again if attempts "
        "are left, else dead",
    ),
    Signal.TIMED_OUT: _transition(
        RUNNING,
        why="its agent receives a cancel; the attempt ends when the agent reports so, or no longer lists it",
    ),
    Signal.CANCEL_REQUESTED: _transition(
        RUNNING, why="its agent receives a cancel; the attempt ends when the agent reports so"
    ),
    Signal.START_TIMED_OUT: Ignore("it runs: its lease and its timeout are watched instead"),
}

_RETRYING: Mapping[Signal, Effect] = {
    **_IN_FLIGHT,
    Signal.DUE: _transition(QUEUED, why="its delay is over: the next attempt is dispatched"),
    Signal.CANCEL_REQUESTED: _ending(CANCELLED, why="the next attempt has not begun; agents are notified"),
    Signal.START_TIMED_OUT: _transition(
        QUEUED,
        RETRYING,
        why="its time has passed: the same attempt is queued, and dispatched if its dispatch waited in the "
        "store; while a circuit breaker is open it is postponed",
    ),
}


_TURN_OVER = "its turn has ended; a report of it changes nothing"
_SUSPENDED: Mapping[Signal, Effect] = {
    **dict.fromkeys(ATTEMPT_SIGNALS, Ignore(_TURN_OVER)),
    Signal.REQUESTED: _REPEAT,
    Signal.SUSPENDED: Ignore("a repeat of its suspension: what it waits for is looked at again"),
    Signal.SUCCEEDED: _transition(
        SUCCEEDED,
        why="the result of an agent whose ledger knows no suspension; ignored once another end is decided",
    ),
    Signal.DUE: _transition(QUEUED, why="something that it waits for is there: the next turn is dispatched"),
    Signal.CANCEL_REQUESTED: _ending(CANCELLED, why="it waits, and no agent has to stop"),
    Signal.DEADLINE_PASSED: _ending(EXPIRED, why="it can no longer finish in time"),
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
            (SUSPENDED, _SUSPENDED),
            *((state, _over(state)) for state in sorted(TERMINAL)),
        )
        for signal, step in steps.items()
    }
)
"""Complete: every pair of state and signal has one effect."""

STALE = Ignore("a report of an earlier attempt: the fence refuses it")
LATE_SUCCESS = _transition(
    SUCCEEDED,
    why="an earlier attempt has succeeded: only a success that the ledger has recorded is published",
)
"""Until the job has ended, a late success counts, even if a later attempt waits."""
UNKNOWN_ATTEMPT = Reject("a report of an attempt that was never made")


def compare_attempts(current: int, reported: int) -> Fence:
    """Compare the attempt of a signal with the job's current one."""
    if reported < current:
        return Fence.OLDER
    return Fence.CURRENT if reported == current else Fence.NEWER


def effect_of(state: JobState, signal: Signal, fence: Fence = Fence.CURRENT) -> Effect:
    if signal in ATTEMPT_SIGNALS:
        if fence is Fence.OLDER:
            late = signal is Signal.SUCCEEDED and isinstance(STATE_MACHINE[state, signal], Transition)
            return LATE_SUCCESS if late else STALE
        if fence is Fence.NEWER:
            return UNKNOWN_ATTEMPT
    return STATE_MACHINE[state, signal]

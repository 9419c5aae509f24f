"""What an event of the status exchange means for a job: its signal, its job, its attempt."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from warrener_contracts.events import (
    AttemptCancelled,
    AttemptCheckpointed,
    AttemptData,
    AttemptFailed,
    AttemptLost,
    AttemptProgressed,
    AttemptReleased,
    AttemptStarted,
    AttemptStartTimedOut,
    AttemptSucceeded,
    AttemptTimedOut,
    Event,
    JobCancelRequested,
    JobCancelRequestedData,
    JobDeadlinePassed,
    JobDeadlinePassedData,
)
from warrener_contracts.state_machine import ATTEMPT_SIGNALS, Fence, Signal, compare_attempts
from warrener_store.rows import JobRow

SIGNALS: Mapping[type[Event[Any]], Signal] = {
    AttemptStarted: Signal.ALIVE,
    AttemptProgressed: Signal.ALIVE,
    AttemptCheckpointed: Signal.ALIVE,
    AttemptSucceeded: Signal.SUCCEEDED,
    AttemptFailed: Signal.FAILED,
    AttemptCancelled: Signal.STOPPED,
    AttemptReleased: Signal.RELEASED,
    AttemptTimedOut: Signal.TIMED_OUT,
    AttemptLost: Signal.LOST,
    AttemptStartTimedOut: Signal.OVERDUE,
    JobCancelRequested: Signal.CANCEL_REQUESTED,
    JobDeadlinePassed: Signal.DEADLINE_PASSED,
}
"""Every event that the supervisor judges; the others have come to the wrong door. See `signal_of`."""


def signal_of(event: Event[Any]) -> Signal:
    """What `event` means: its kind says it, but for the two that say whose wish they carry."""
    signal = SIGNALS[type(event)]
    if signal is Signal.FAILED and event.data.snoozed:
        return Signal.SNOOZED
    if signal is Signal.STOPPED and event.data.by_handler:
        return Signal.WITHDRAWN
    return signal


def job_of(event: Event[Any]) -> UUID:
    """The job that a judged event is about."""
    data: AttemptData | JobCancelRequestedData | JobDeadlinePassedData = event.data
    return data.job_id


def attempt_of(event: Event[Any]) -> int | None:
    """The attempt that it tells of, if it is about one."""
    data: object = event.data
    return data.attempt if isinstance(data, AttemptData) else None


def fence_of(row: JobRow, event: Event[Any]) -> Fence:
    """How the event stands to the job's current attempt; what is about the whole job is always current."""
    attempt = attempt_of(event)
    if attempt is None or SIGNALS[type(event)] not in ATTEMPT_SIGNALS:
        return Fence.CURRENT
    return compare_attempts(row.attempt, attempt)

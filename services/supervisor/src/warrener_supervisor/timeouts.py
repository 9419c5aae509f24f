"""An attempt that runs too long: it is stopped first, and called timed out when its death is certain. Pure.

Certain it is when its agent has reported its end, or has named it in no heartbeat for as long as a lease
lasts: an agent that lives says what it runs, and one that cannot say it is gone, or has lost its claims.
Until then the watchdog says again and again that its time is over, and with each word the agent is told to
stop.
"""

from datetime import datetime

from warrener_contracts.events import AttemptTimedOut, ErrorInfo, ErrorKind
from warrener_contracts.events.flight_record import FlightRecord
from warrener_contracts.states import JobState
from warrener_store.job_row import evolve
from warrener_store.rows import JobRow
from warrener_supervisor.context import JudgeContext
from warrener_supervisor.timings import Timings
from warrener_supervisor.verdicts import JobTransition, Notification


def has_overrun(row: JobRow, now: datetime, timings: Timings) -> bool:
    """Whether its current attempt runs past its time, and past what its agent is given to end it itself."""
    if row.state is not JobState.RUNNING or row.started_at is None:
        return False
    return row.started_at + row.policy.timeout + timings.timeout_grace <= now


def was_overrunning(row: JobRow, last_seen_at: datetime, now: datetime, timings: Timings) -> bool:
    """Whether its agent, that is silent now, had still run it when its time was over.

    Whoever fell silent before that was lost, however late it is noticed: a supervisor may have been away.
    """
    if row.started_at is None or row.started_at + row.policy.timeout > last_seen_at:
        return False
    return has_overrun(row, now, timings)


def on_timed_out(row: JobRow, _: AttemptTimedOut, context: JudgeContext) -> JobTransition:
    """It goes on running until its agent has killed it; nothing else is begun meanwhile."""
    waits = evolve(row, wake_at=context.now + context.timings.claim, updated_at=context.now)
    return JobTransition(waits, "told to stop", notifications=frozenset({Notification.CANCEL}))


def timeout_error(row: JobRow, how_it_ended: str, flight_record: FlightRecord | None = None) -> ErrorInfo:
    """What is kept of it."""
    seconds = row.policy.timeout.total_seconds()
    return ErrorInfo(
        kind=ErrorKind.TIMEOUT,
        type="timeout",
        message=f"it ran for more than {seconds:g} s; {how_it_ended}",
        flight_record=flight_record,
    )

"""How attempts end, as outcomes. Pure."""

import asyncio
from datetime import timedelta

from warrener_agent.context import AttemptFacts
from warrener_agent.executors.coroutine import LeaseEnded
from warrener_agent.executors.error_info import (
    describe_error,
    heartbeat_failure,
    timeout_failure,
    with_flight_record,
)
from warrener_agent.executors.port import HandlerResult
from warrener_agent.outcomes import (
    CancelledOutcome,
    FailedOutcome,
    Outcome,
    ReleasedOutcome,
    UnresolvedOutcome,
)
from warrener_agent.run_table import Run, StopCause
from warrener_contracts.events import AttemptDispatchedData, ErrorInfo, ErrorKind, FlightRecord
from warrener_contracts.retryability import UNKNOWN_JOB_TYPE

_LONGEST = timedelta(days=3650)


def attempt_facts(run: Run) -> AttemptFacts:
    """What the handler may know of its attempt."""
    data, started_at = run.data, run.started_at
    checkpoint = None if run.checkpoint is None else run.checkpoint.state
    deadline = started_at + min(data.timeout, _LONGEST)
    if data.deadline is not None:
        deadline = min(deadline, data.deadline)
    return AttemptFacts(data.job_id, data.job_type, data.attempt, data.max_attempts, deadline, checkpoint)


def handler_result(done: asyncio.Future[HandlerResult]) -> HandlerResult:
    """What a handler came to."""
    try:
        return done.result()
    except (asyncio.CancelledError, LeaseEnded) as error:
        # Not cancelled by us: the handler has cancelled its own task. Or the lease ended before the first
        # step, when nothing of the handler was there yet to turn the error into its end.
        return describe_error(error)


def timeout_outcome(run: Run, facts: AttemptFacts, record: FlightRecord | None) -> FailedOutcome:
    """It ran for too long, or was silent for too long."""
    data = run.data
    if run.heartbeat is not None and run.heartbeat.is_expired:
        raised = heartbeat_failure(run.heartbeat.timeout)
    else:
        raised = timeout_failure(data.timeout, data.deadline if facts.deadline == data.deadline else None)
    return FailedOutcome(with_flight_record(raised, record).error, raised.retry_after_seconds)


def stop_outcome(run: Run, record: FlightRecord | None) -> Outcome:
    """Somebody asked for its end."""
    match run.stop:
        case StopCause.CANCELLED:
            return CancelledOutcome(run.stop_reason, record)
        case StopCause.DRAINED:
            return ReleasedOutcome(run.stop_reason)
        case _:
            return UnresolvedOutcome(run.stop_reason)


def unknown_job_type_error(data: AttemptDispatchedData, agent_id: str, known: list[str]) -> ErrorInfo:
    """Nobody here knows its job type."""
    return ErrorInfo(
        kind=ErrorKind.ERROR,
        type=UNKNOWN_JOB_TYPE,
        message=(
            f"expected one of {', '.join(known)} in queue {data.queue}, got {data.job_type}: agent "
            f"{agent_id} does "
            "not know it; give its agents a queue of their own, or all agents of this queue the same modules"
        ),
    )

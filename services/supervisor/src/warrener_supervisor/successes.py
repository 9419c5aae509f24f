"""`job.finished` of a job that succeeded, written straight from its row. Pure.

Most of what a supervisor says is this, and all of it is from rows that were validated when they came in: so
it is written as it would be after validation, without it. A test holds it to what the event's model writes.
"""

from typing import Any

from pydantic_core import to_json

from warrener_contracts.events import JobFinished
from warrener_contracts.messages import EVENT_TYPE, Message
from warrener_contracts.registry import type_of
from warrener_contracts.states import JobState
from warrener_contracts.topology import EVENTS
from warrener_runtime.telemetry import NO_CONTEXT, TraceContext
from warrener_store.rows import JobRow
from warrener_store.successes import SucceededJob
from warrener_supervisor.source import SOURCE

_TYPE = type_of(JobFinished)
_STATE = JobState.SUCCEEDED.value


def success_message(row: JobRow | SucceededJob, trace: TraceContext) -> Message:
    """The job of `row` has succeeded: to all who bind a queue to it."""
    job_id = str(row.job_id)
    headers = {} if trace == NO_CONTEXT else _headers(trace)
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{job_id}:finished",
        "source": SOURCE,
        "type": _TYPE,
        "time": row.finished_at,
        "subject": job_id,
        "datacontenttype": "application/json",
        **headers,
        "data": _data(row, job_id),
    }
    return Message(
        exchange=EVENTS,
        routing_key=f"job.finished.{_STATE}.{row.job_type}",
        body=to_json(event, inf_nan_mode="null"),
        content_type=EVENT_TYPE,
        message_id=event["id"],
        type=_TYPE,
        headers=headers,
    )


def _headers(trace: TraceContext) -> dict[str, str]:
    return {name: value for name, value in trace._asdict().items() if value}


def _data(row: JobRow | SucceededJob, job_id: str) -> dict[str, Any]:
    """The fields of a JobFinishedData in their order; what has no value is left out."""
    data: dict[str, Any] = {
        "job_id": job_id,
        "job_type": row.job_type,
        "state": _STATE,
        "attempt": row.attempt,
    }
    if row.result is not None:
        data["result"] = row.result
    if row.parent_id is not None:
        data["parent_id"] = str(row.parent_id)
    data["requested_at"] = row.requested_at
    data["finished_at"] = row.finished_at
    return data

"""Render a job's outgoing messages from its saved row, and messages to park.

The same row gives the same messages under the same ids, so that publishing twice is a repeat.
"""

from collections.abc import Iterable, Set
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from pydantic_core import to_json

from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import (
    AttemptCancel,
    AttemptCancelData,
    AttemptDispatched,
    Checkpoint,
    Event,
    JobDead,
    JobDeadData,
    JobFinished,
    JobRetrying,
    JobRetryingData,
    Reason,
)
from warrener_contracts.messages import (
    EVENT_TYPE,
    Message,
    as_reply,
    build_delayed_message,
    build_message,
    build_parked_message,
)
from warrener_contracts.registry import type_of
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import EVENTS
from warrener_runtime.telemetry import NO_CONTEXT, TraceContext
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import SucceededJob
from warrener_supervisor import SOURCE
from warrener_supervisor.decisions.context import Notification, Timings
from warrener_supervisor.decisions.delays import is_stored_only
from warrener_supervisor.decisions.signals import job_event

_TYPE = type_of(JobFinished)
_STATE = JobState.SUCCEEDED.value


def render_messages(
    row: JobRow,
    notifications: Set[Notification],
    *,
    answers: Iterable[str],
    now: datetime,
    trace: TraceContext,
    timings: Timings,
    checkpoint: Checkpoint | None = None,
) -> list[Message]:
    """Render the messages that `notifications` name, and `job.finished` for each of the reply addresses in
    `answers`.

    Notifications are left out that the job has passed by in the same batch.
    """
    over = row.state.terminal
    messages: list[Message] = []
    if not over and row.state in (JobState.QUEUED, JobState.RETRYING):
        if Notification.DISPATCH in notifications and not is_stored_only(row, now, timings):
            messages.append(dispatch_message(row, now, checkpoint))
        if Notification.RETRYING in notifications and row.state is JobState.RETRYING:
            messages.extend(build_message(event) for event in _retrying(row, now, trace))
    if Notification.CANCEL in notifications:
        messages.append(cancel_message(row, now, trace))
    if over:
        messages.extend(_endings(row, notifications, answers, now, trace))
    return messages


def _endings(
    row: JobRow, notifications: Set[Notification], answers: Iterable[str], now: datetime, trace: TraceContext
) -> list[Message]:
    addresses = [*answers]
    messages: list[Message] = []
    to_all = _finished(row, trace)
    if Notification.FINISHED in notifications:
        messages.append(to_all)
        addresses.extend(row.watchers)
    if Notification.DEAD in notifications and row.state is JobState.DEAD:
        messages.append(build_message(_dead(row, now, trace)))
    messages.extend(as_reply(to_all, address) for address in dict.fromkeys(addresses))
    return messages


def _finished(row: JobRow, trace: TraceContext) -> Message:
    return success_message(row, trace) if row.state is JobState.SUCCEEDED else finished_message(row, trace)


def finished_message(row: JobRow, trace: TraceContext) -> Message:
    """Render `job.finished` of a job in any terminal state, as the event's model writes it."""
    event = job_event(JobFinished, row, "finished", row.finished_at, row.finished_data(), trace=trace)
    return build_message(event)


def success_message(row: JobRow | SucceededJob, trace: TraceContext) -> Message:
    """Render `job.finished` of a succeeded job straight from its row.

    Most messages of a supervisor are this one, and their rows were validated when they came in: so it is
    written as it would be after validation, without validating. A test compares it with the event's model.
    """
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
    """Return the fields of a JobFinishedData in their order, without those that have no value."""
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


def _dead(row: JobRow, now: datetime, trace: TraceContext) -> Event[Any]:
    reason = row.error.message if row.error else "its attempts are used up"
    return job_event(
        JobDead,
        row,
        "dead",
        now,
        JobDeadData(
            job_id=row.job_id, job_type=row.job_type, attempts=row.attempt, reason=reason, error=row.error
        ),
        trace=trace,
    )


def _retrying(row: JobRow, now: datetime, trace: TraceContext) -> list[Event[Any]]:
    if row.error is None or row.due_at is None:
        return []  # released: nothing went wrong
    return [
        job_event(
            JobRetrying,
            row,
            f"{row.attempt}:retrying",
            now,
            JobRetryingData(
                job_id=row.job_id,
                job_type=row.job_type,
                next_attempt=row.attempt,
                due_at=row.due_at,
                error=row.error,
            ),
            trace=trace,
        )
    ]


def dispatch_message(row: JobRow, now: datetime, checkpoint: Checkpoint | None = None) -> Message:
    """Render the dispatch of the current attempt, by a delay queue while it must wait.

    It is a child of the row's trace, so that all attempts of a job are siblings.
    """
    event = job_event(
        AttemptDispatched,
        row,
        f"{row.attempt}",
        now,
        row.dispatched_data().model_copy(update={"checkpoint": checkpoint}),
    )
    message = build_delayed_message(event, now)
    if message.exchange == topology.DISPATCH and event.data.not_before is not None:
        # The rest is shorter than any delay level, so the attempt is due now.
        due = event.model_copy(update={"data": event.data.model_copy(update={"not_before": None})})
        return build_message(due)
    return message


def cancel_message(row: JobRow, now: datetime, trace: TraceContext) -> Message:
    """Render a stop for every agent that serves the job's queue.

    Stops all attempts of a job that is over or cancelled, else the running one, or those before the
    waiting one.
    """
    over = row.state.terminal or row.cancel_reason is not None
    last = row.attempt if row.state is JobState.RUNNING else row.attempt - 1
    event = job_event(
        AttemptCancel,
        row,
        f"{row.attempt}:cancel",
        now,
        AttemptCancelData(
            job_id=row.job_id,
            attempt=None if over else last,
            reason=row.cancel_reason or (f"the job is {row.state.value}" if over else "it took too long"),
        ),
        trace=trace,
    )
    return control_message(event, row.queue)


def superseded_message(row: JobRow, attempt: int, now: datetime) -> Message:
    """Render a stop of an earlier attempt, since a later one runs, for every agent that serves the job's
    queue."""
    event = job_event(
        AttemptCancel,
        row,
        f"{attempt}:superseded",
        now,
        AttemptCancelData(
            job_id=row.job_id, attempt=attempt, reason=f"attempt {row.attempt} runs in its place"
        ),
    )
    return control_message(event, row.queue)


def control_message(event: AttemptCancel, queue: str) -> Message:
    """Address `event` to the agents that serve `queue` alone."""
    return build_message(event)._replace(routing_key=f"queue.{queue}")


def parked_bytes(found: DecodeFailure, queue: str) -> Message:
    """Park bytes that could not be decoded; of a batch, the bad element alone."""
    return build_parked_message(
        queue=queue,
        body=found.body,
        reason=found.reason.value,
        detail=found.detail,
        message_id=found.identity,
        content_type=found.content_type,
    )


def parked_event(found: DecodedEvent, queue: str, reason: Reason, detail: str) -> Message:
    """Park an event that was decoded and cannot be used."""
    return build_parked_message(
        queue=queue,
        body=found.body,
        reason=reason.value,
        detail=detail,
        message_id=str(uuid5(UUID(found.identity), f"{queue}\n{reason.value}")),
        content_type=EVENT_TYPE,
    )

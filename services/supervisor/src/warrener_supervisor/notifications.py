"""What is told, rendered from the row that was saved. Pure: the same row gives the same messages, under the
same ids, so that telling twice is a repeat and not a second word."""

from collections.abc import Iterable, Set
from datetime import datetime
from typing import Any

from warrener_contracts import topology
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
)
from warrener_contracts.messages import Message, as_reply, build_delayed_message, build_message
from warrener_contracts.states import JobState
from warrener_runtime.telemetry import TraceContext
from warrener_store.rows import JobRow
from warrener_supervisor.breaker_holds import is_stored_only
from warrener_supervisor.source import SOURCE
from warrener_supervisor.successes import success_message
from warrener_supervisor.timings import Timings
from warrener_supervisor.verdicts import Notification


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
    """Everything that `notifications` asks to be said of `row`, and `answers` to those who asked when it was
    over.

    What was to be said before the job went on in the same batch is left out.
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


def dispatch_message(row: JobRow, now: datetime, checkpoint: Checkpoint | None = None) -> Message:
    """The current attempt: by the ladder while it is to wait, else straight. Hangs under the row's trace, so
    that all attempts of a job are siblings."""
    event = AttemptDispatched(
        id=f"{row.job_id}:{row.attempt}",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=row.dispatched_data().model_copy(update={"checkpoint": checkpoint}),
    )
    message = build_delayed_message(event, now)
    if message.exchange == topology.DISPATCH and event.data.not_before is not None:
        # No rung is short enough for what is left: it is due as good as now.
        due = event.model_copy(update={"data": event.data.model_copy(update={"not_before": None})})
        return build_message(due)
    return message


def cancel_message(row: JobRow, now: datetime, trace: TraceContext) -> Message:
    """To every agent that serves the job's queue: stop all attempts of what is over or was cancelled, else
    the one that runs, or those before the one that waits."""
    over = row.state.terminal or row.cancel_reason is not None
    last = row.attempt if row.state is JobState.RUNNING else row.attempt - 1
    event = AttemptCancel(
        id=f"{row.job_id}:{row.attempt}:cancel",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=trace.traceparent,
        tracestate=trace.tracestate,
        data=AttemptCancelData(
            job_id=row.job_id,
            attempt=None if over else last,
            reason=row.cancel_reason or (f"the job is {row.state.value}" if over else "it took too long"),
        ),
    )
    return control_message(event, row.queue)


def superseded_message(row: JobRow, attempt: int, now: datetime) -> Message:
    """To every agent that serves the job's queue: stop this earlier attempt, a later one runs."""
    event = AttemptCancel(
        id=f"{row.job_id}:{attempt}:superseded",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=AttemptCancelData(
            job_id=row.job_id, attempt=attempt, reason=f"attempt {row.attempt} runs in its place"
        ),
    )
    return control_message(event, row.queue)


def control_message(event: AttemptCancel, queue: str) -> Message:
    """`event` to the agents that serve `queue` alone."""
    whole = build_message(event)
    return Message(
        exchange=whole.exchange,
        routing_key=f"queue.{queue}",
        body=whole.body,
        content_type=whole.content_type,
        message_id=whole.message_id,
        type=whole.type,
        headers=whole.headers,
        persistent=whole.persistent,
    )


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
    """`job.finished` of a job that is over in whatever way, as the event's model writes it."""
    event = JobFinished(
        id=f"{row.job_id}:finished",
        source=SOURCE,
        time=row.finished_at,
        subject=str(row.job_id),
        traceparent=trace.traceparent,
        tracestate=trace.tracestate,
        data=row.finished_data(),
    )
    return build_message(event)


def _dead(row: JobRow, now: datetime, trace: TraceContext) -> Event[Any]:
    reason = row.error.message if row.error else "its attempts are used up"
    return JobDead(
        id=f"{row.job_id}:dead",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=trace.traceparent,
        tracestate=trace.tracestate,
        data=JobDeadData(
            job_id=row.job_id, job_type=row.job_type, attempts=row.attempt, reason=reason, error=row.error
        ),
    )


def _retrying(row: JobRow, now: datetime, trace: TraceContext) -> list[Event[Any]]:
    if row.error is None or row.due_at is None:
        return []  # given back unharmed: nothing went wrong
    return [
        JobRetrying(
            id=f"{row.job_id}:{row.attempt}:retrying",
            source=SOURCE,
            time=now,
            subject=str(row.job_id),
            traceparent=trace.traceparent,
            tracestate=trace.tracestate,
            data=JobRetryingData(
                job_id=row.job_id,
                job_type=row.job_type,
                next_attempt=row.attempt,
                due_at=row.due_at,
                error=row.error,
            ),
        )
    ]

"""Render a job's outgoing messages from its saved row.

The same row gives the same messages under the same ids, so that publishing twice is a repeat.
"""

from collections.abc import Set
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from pydantic_core import to_json

from warrener_contracts import events, topology
from warrener_contracts.fields import JsonObject
from warrener_contracts.messages import Message, as_reply, build_delayed_message, build_message
from warrener_contracts.state_machine import JobState
from warrener_contracts.writer import EventWriter, moment_json
from warrener_runtime.telemetry import TraceContext
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import SucceededJob
from warrener_supervisor import SOURCE
from warrener_supervisor.decisions.context import Notification, Timings
from warrener_supervisor.decisions.delays import is_stored_only
from warrener_supervisor.decisions.signals import job_event

_FINISHED = EventWriter(events.JobFinished, SOURCE)
_STATE = JobState.SUCCEEDED.value


class Resumption(NamedTuple):
    """State with which an attempt after the first goes on."""

    checkpoint: events.Checkpoint | None = None
    journal: str | None = None  # JSON
    history: events.History | None = None
    avoid_agents: tuple[str, ...] = ()
    arguments: JsonObject | None = None  # None: those of the request
    pages: str | None = None  # JSON


FROM_THE_BEGINNING = Resumption()


def render_messages(
    row: JobRow,
    notifications: Set[Notification],
    *,
    now: datetime,
    trace: TraceContext,
    timings: Timings,
    resumption: Resumption = FROM_THE_BEGINNING,
) -> list[Message]:
    """Render the messages that `notifications` name; not the dispatch of a workflow that has suspended
    (`effects.publish_turns`).

    Notifications are left out that the job has passed by in the same batch.
    """
    over = row.state.terminal
    messages: list[Message] = []
    if is_dispatched(row, notifications, now, timings) and not row.suspensions:
        messages.append(dispatch_message(row, now, resumption))
    if Notification.RETRYING in notifications and row.state is JobState.RETRYING:
        messages.extend(_retrying(row, now, trace))
    if Notification.CANCEL in notifications:
        messages.append(cancel_message(row, now, trace))
    if over:
        messages.extend(_endings(row, notifications, now, trace))
    return messages


def is_dispatched(row: JobRow, notifications: Set[Notification], now: datetime, timings: Timings) -> bool:
    """True if the current attempt goes to the broker now."""
    if Notification.DISPATCH not in notifications or row.state not in (JobState.QUEUED, JobState.RETRYING):
        return False
    return not is_stored_only(row, now, timings)


def _endings(
    row: JobRow, notifications: Set[Notification], now: datetime, trace: TraceContext
) -> list[Message]:
    messages: list[Message] = []
    if Notification.FINISHED in notifications:
        render = success_messages if row.state is JobState.SUCCEEDED else finished_messages
        messages += render(row, trace)
    if Notification.DEAD in notifications and row.state is JobState.DEAD:
        error = _public_error(row)
        if error is None:
            reason = "its attempts are used up"
        else:
            reason = error.message if row.policy.public else error.type
        data = events.JobDeadData(
            job_id=row.job_id, job_type=row.job_type, attempts=row.tries, reason=reason, error=error
        )
        messages.append(build_message(job_event(events.JobDead, row, "dead", now, data, trace=trace)))
    return messages


def _public_error(row: JobRow) -> events.ErrorInfo | None:
    """Return the row's error as subscribers may read it."""
    return row.error if row.error is None or row.policy.public else row.error.without_text()


def finished_messages(row: JobRow, trace: TraceContext) -> list[Message]:
    """Render `job.finished` of a job in any terminal state, as the event's model writes it: for subscribers,
    and in full for each reply address."""
    data = row.finished_data()
    event = job_event(events.JobFinished, row, "finished", row.finished_at, data, trace=trace)
    in_full = to_all = build_message(event)
    if not row.policy.public:
        to_all = build_message(event.model_copy(update={"data": data.without_values()}))
    return [to_all, *(as_reply(in_full, address) for address in dict.fromkeys(row.watchers))]


def success_messages(row: JobRow | SucceededJob, trace: TraceContext) -> list[Message]:
    """Render `job.finished` of a succeeded job straight from its row, as `finished_messages` does.

    A supervisor publishes nothing else as often, and rows were validated on arrival, so it is written without
    validation, and a result that nobody may read not at all. A test compares the bytes with those of the
    event's model.
    """
    assert row.finished_at is not None, "the row of a job that has succeeded"
    job_id, finished_at = str(row.job_id), moment_json(row.finished_at)
    parent = "" if row.parent_id is None else f',"parent_id":"{row.parent_id}"'
    head = f'{{"job_id":"{job_id}","job_type":"{row.job_type}","state":"{_STATE}","attempt":{row.attempt}'
    tail = f'{parent},"requested_at":{moment_json(row.requested_at)},"finished_at":{finished_at}'
    in_full = public = f"{head}{tail}}}"
    if row.watchers or row.policy.public:
        result = (
            "" if row.result is None else f',"result":{to_json(row.result, inf_nan_mode="null").decode()}'
        )
        request_id = f'"{job_id}"' if row.request_id is None else to_json(row.request_id).decode()
        request = f'"request_id":{request_id},"request_source":{_source_json(row.source)}'
        in_full = f"{head}{result}{tail},{request}}}"
        public = in_full if row.policy.public else public
    to_all = _FINISHED.message(
        f"{job_id}:finished",
        f"job.finished.{_STATE}.{row.job_type}",
        finished_at,
        job_id,
        public,
        traceparent=trace.traceparent,
        tracestate=trace.tracestate,
    )
    if not row.watchers:
        return [to_all]
    # The data are the last member of an event.
    envelope = to_all.body[: -len(public.encode()) - 1]
    reply = to_all._replace(body=b"%b%b}" % (envelope, in_full.encode()))
    return [to_all, *(as_reply(reply, address) for address in dict.fromkeys(row.watchers))]


@lru_cache(maxsize=1024)
def _source_json(source: str) -> str:
    return to_json(source).decode()


def _retrying(row: JobRow, now: datetime, trace: TraceContext) -> list[Message]:
    error = _public_error(row)
    if error is None or row.due_at is None:
        return []  # released: nothing went wrong
    data = events.JobRetryingData(
        job_id=row.job_id, job_type=row.job_type, next_attempt=row.attempt, due_at=row.due_at, error=error
    )
    return [
        build_message(job_event(events.JobRetrying, row, f"{row.attempt}:retrying", now, data, trace=trace))
    ]


def dispatch_message(row: JobRow, now: datetime, resumption: Resumption = FROM_THE_BEGINNING) -> Message:
    """Render the dispatch of the current attempt, by a delay queue while it must wait.

    It is a child of the row's trace, so that all attempts of a job are siblings.
    """
    changes = resumption._replace(journal=None)._asdict()
    del changes["pages"]
    if resumption.arguments is None:
        del changes["arguments"]
    data = row.dispatched_data().model_copy(update=changes)
    event = job_event(events.AttemptDispatched, row, f"{row.attempt}", now, data)
    if row.baggage is not None:
        event = event.model_copy(update={"baggage": row.baggage})
    message = build_delayed_message(event, now)
    if message.exchange == topology.DISPATCH and event.data.not_before is not None:
        # The rest is shorter than any delay level, so the attempt is due now.
        due = event.model_copy(update={"data": event.data.model_copy(update={"not_before": None})})
        message = build_message(due)
    if resumption.journal is None:
        return message
    # As it is stored: to read a thousand turns and to write them again would take longer than all else. The
    # data are the last member of an event.
    pages = f',"pages":{resumption.pages}' if resumption.pages else ""
    rest = f'{pages},"journal":{resumption.journal}}}}}'
    return message._replace(body=message.body[:-2] + rest.encode())


def cancel_message(row: JobRow, now: datetime, trace: TraceContext) -> Message:
    """Render a stop for every agent that serves the job's queue.

    Stops all attempts of a job that is over or cancelled, else the running one, or those before the
    waiting one.
    """
    end = row.ending or row.state
    over = end.terminal or row.cancel_reason is not None
    last = row.attempt if row.state is JobState.RUNNING or row.is_held else row.attempt - 1
    data = events.AttemptCancelData(
        job_id=row.job_id,
        attempt=None if over else last,
        reason=row.cancel_reason or (f"the job is {end.value}" if over else "it took too long"),
    )
    event = job_event(events.AttemptCancel, row, f"{row.attempt}:cancel", now, data, trace=trace)
    return _control_message(event, row)


def superseded_message(row: JobRow, attempt: int, now: datetime) -> Message:
    """Render a stop of an earlier attempt, since a later one runs, for the agents of the job's queue."""
    reason = f"attempt {row.attempt} runs in its place"
    data = events.AttemptCancelData(job_id=row.job_id, attempt=attempt, reason=reason)
    return _control_message(job_event(events.AttemptCancel, row, f"{attempt}:superseded", now, data), row)


def _control_message(event: events.AttemptCancel, row: JobRow) -> Message:
    message = build_message(event)
    if row.policy.rule_queues:  # an earlier attempt may run at an agent of another queue: to all agents
        return message
    return message._replace(routing_key=f"queue.{row.queue}")

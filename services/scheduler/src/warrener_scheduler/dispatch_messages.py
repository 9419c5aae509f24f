"""Dispatches as bytes: the current attempt of a job, to the agents. Pure.

The scheduler says this once for each job, and nothing else as often. What it says of a job was validated when
the job was asked for, so it is written and not validated again; `tests/test_dispatch_messages.py` holds it,
byte for byte, against the event as the contracts write it.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from pydantic_core import to_json

from warrener_contracts import topology
from warrener_contracts.events import AttemptDispatched
from warrener_contracts.messages import EVENT_TYPE, Message
from warrener_contracts.policy import Guarantee
from warrener_contracts.registry import type_of
from warrener_contracts.states import JobState
from warrener_store.jobs.rows import JobRow

SOURCE = "warrener/scheduler"
_TYPE = type_of(AttemptDispatched)


def dispatch_message(row: JobRow, now: datetime) -> Message:
    """The current attempt of a job; under the row's trace, as every attempt."""
    job_id = str(row.job_id)
    event_id = f"{job_id}:{row.attempt}"
    return Message(
        exchange=topology.DISPATCH,
        routing_key=f"{row.queue}.{row.job_type}",
        body=_body(row, job_id, event_id, now),
        content_type=EVENT_TYPE,
        message_id=event_id,
        type=_TYPE,
        headers=_headers(row) if row.traceparent or row.tracestate else {},
        mandatory=True,
        # What is tried again has gone wrong once: it takes no others with it.
        per_message=row.policy.per_message if row.attempt == 1 else 1,
    )


def _body(row: JobRow, job_id: str, event_id: str, now: datetime) -> bytes:
    start = (
        f'{{"specversion":"1.0","id":"{event_id}","source":"{SOURCE}","type":"{_TYPE}","time":{_moment(now)},'
        f'"subject":"{job_id}","datacontenttype":"application/json"{_trace(row)},'
        f'"data":{{"job_id":"{job_id}","attempt":{row.attempt},{_kind(row.job_type, row.queue)},"arguments":'
    )
    policy = row.policy
    end = (
        f",{_terms(row.guarantee, policy.timeout, policy.max_attempts)}"
        f'{_where_set("deadline", row.deadline_at)},"requested_at":{_utc(row.requested_at)}'
        f"{_where_set('not_before', row.due_at if row.state is JobState.RETRYING else None)}}}}}"
    )
    return b"".join((start.encode(), to_json(row.arguments, inf_nan_mode="null"), end.encode()))


def _trace(row: JobRow) -> str:
    return _where_set("traceparent", row.traceparent) + _where_set("tracestate", row.tracestate)


def _where_set(name: str, value: str | datetime | None) -> str:
    if value is None:
        return ""
    return f',"{name}":{_utc(value) if isinstance(value, datetime) else _json(value)}'


def _utc(moment: datetime) -> str:
    return _json(moment.astimezone(UTC))


def _json(value: object) -> str:
    return to_json(value).decode()


# What many dispatches have in common is written once. Where there are more kinds of job, it costs time alone.


@lru_cache(maxsize=4)
def _moment(moment: datetime) -> str:
    return _utc(moment)


@lru_cache(maxsize=4096)
def _kind(job_type: str, queue: str) -> str:
    return f'"job_type":{_json(job_type)},"queue":{_json(queue)}'


@lru_cache(maxsize=4096)
def _terms(guarantee: Guarantee, timeout: timedelta, max_attempts: int) -> str:
    return f'"guarantee":{_json(guarantee)},"timeout":{_json(timeout)},"max_attempts":{max_attempts}'


def _headers(row: JobRow) -> dict[str, str]:
    context = {"traceparent": row.traceparent, "tracestate": row.tracestate}
    return {name: value for name, value in context.items() if value}

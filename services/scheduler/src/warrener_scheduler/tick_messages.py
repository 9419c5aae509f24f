"""The requests and the event of a tick, as text for the store and as messages. Pure.

The store holds the text of a request until the broker has confirmed it. Requests and events are written
without validation: their contents were validated when the schedule was put, or are our own.
`tests/test_messages.py` compares the bytes with those of the event classes.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

from pydantic_core import to_json

from warrener_calendar.template_variables import Tick, tick_variables
from warrener_contracts import events, topology
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.identity import schedule_source
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, Message, build_message, encode, trace_headers
from warrener_contracts.registry import type_of
from warrener_contracts.schedule_rules import Rule
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_contracts.templates import render
from warrener_contracts.triggers import TriggerRule
from warrener_contracts.writer import EventWriter, shared_moment_json
from warrener_scheduler.messages import SOURCE
from warrener_store.schedules.rows import TickRow

TraceParts = tuple[str | None, str | None]  # a trace context, as `traceparent` and `tracestate`
BeginTrace = Callable[[TickRow, str, TraceParts], TraceParts]
"""Begins the trace of a tick; see `request_messages`."""

_REQUESTED = type_of(events.JobRequested)
_DATA = '"data":'
_NO_TRACE: TraceParts = (None, None)
_TRACEPARENT = re.compile(r'"traceparent":"([^"]*)",')
_TICKED = EventWriter(events.ScheduleTicked, SOURCE)


def begin_no_trace(tick: TickRow, job_type: str, upstream: TraceParts) -> TraceParts:
    """Leave the beginning of the trace to the acceptance of the request."""
    del tick, job_type, upstream
    return _NO_TRACE


def request_text(
    spec: events.SchedulePutData,
    job_id: UUID,
    now: datetime,
    cancelled: UUID | None = None,
    *,
    names: Mapping[str, Any] | None = None,
    event: events.JsonObject | None = None,
) -> str:
    """Write a CloudEvents batch: the request for one job, behind the cancel of another one if there is any.

    The placeholders of the arguments are filled from `names`. `event`: the event that has made the tick, if
    any. Its trace context stands in the request, for the link of `request_messages`.
    """
    source = schedule_source(spec.name)
    arguments = spec.arguments if names is None else _render(spec.arguments, names)
    text = _requested_json(spec, source, job_id, now, arguments | _event_argument(spec.rule, event))
    if event is not None and isinstance(upstream := event.get("traceparent"), str):
        text = text.replace(_DATA, f'"traceparent":{to_json(upstream).decode()},{_DATA}', 1)
    if cancelled is None:
        return f"[{text}]"
    cancel = events.JobCancelRequested(
        id=str(uuid5(cancelled, str(job_id))),
        source=source,
        time=now,
        subject=str(cancelled),
        data=events.JobCancelRequestedData(job_id=cancelled, reason=f"the next tick of {spec.name} is due"),
    )
    return f"[{encode(cancel).decode()},{text}]"


def sample_arguments(spec: events.SchedulePutData, now: datetime) -> events.JsonObject:
    """Fill the arguments as for a tick of now, to compare them with the schema of the job type."""
    return _render(spec.arguments, tick_variables(spec, Tick(now, 1, now, now)))


def request_messages(
    tick: TickRow, spec: events.SchedulePutData | None = None, begin_trace: BeginTrace = begin_no_trace
) -> list[Message]:
    """Build the requests of a tick; the same each time they are published, but for their traces.

    `spec`: the schedule of a tick that was just decided: a single event is then not parsed again.
    `begin_trace` takes the tick, the job type and the context of the event that triggered it, and returns the
    context of the request.
    """
    if tick.request is None:
        return []
    if spec is not None and spec.choices.overlap is not OverlapPolicy.CANCEL:
        text = tick.request[1:-1]
        upstream = _upstream_context(text)
        context = begin_trace(tick, spec.job_type, upstream)
        return [_request_message(tick, _with_trace(text, context), spec.job_type, context)]
    found = decode(tick.request.encode(), BATCH_TYPE)
    messages: list[Message] = []
    for one in found:
        if not isinstance(one, DecodedEvent):
            continue
        event = one.event
        if isinstance(event, events.JobRequested):
            context = begin_trace(tick, event.data.job_type, (event.traceparent, None))
            event = event.model_copy(update=dict(zip(("traceparent", "tracestate"), context, strict=True)))
        messages.append(build_message(event))
    return messages


def _upstream_context(text: str) -> TraceParts:
    found = _TRACEPARENT.search(text, 0, text.index(_DATA))
    return _NO_TRACE if found is None else (found[1], None)


def _with_trace(text: str, context: TraceParts) -> str:
    """Write this context in place of the one in the request."""
    attributes, data = text.split(_DATA, 1)
    attributes = _TRACEPARENT.sub("", attributes)
    trace = "".join(f'"{name}":{to_json(value).decode()},' for name, value in trace_headers(*context).items())
    return f"{attributes}{trace}{_DATA}{data}"


def ticked_message(tick: TickRow) -> Message:
    """Build the event that says how a tick was decided."""
    event_id = f"{tick.schedule}:{tick.nominal_at.isoformat()}:{tick.status.value}"
    job = "" if tick.job_id is None else f',"job_id":"{tick.job_id}"'
    late = max((tick.decided_at - tick.due_at).total_seconds(), 0.0)
    return _TICKED.message(
        event_id,
        f"schedule.ticked.{tick.status.value}.{tick.schedule}",
        shared_moment_json(tick.decided_at),
        tick.schedule,
        f'{{"name":"{tick.schedule}","nominal_at":{shared_moment_json(tick.nominal_at)},'
        f'"status":"{tick.status.value}","reason":{to_json(tick.reason).decode()}{job},'
        f'"late_seconds":{to_json(late).decode()}}}',
    )


def _render(arguments: events.JsonObject, names: Mapping[str, Any]) -> events.JsonObject:
    """Fill the placeholders. One that this release does not know, of a newer scheduler's put, stays as it
    is: deciding a tick never fails at it."""
    rendered: events.JsonObject = render(arguments, names, missing=lambda unknown: unknown.source)
    return rendered


def _event_argument(rule: Rule, event: events.JsonObject | None) -> events.JsonObject:
    """Return the argument in which the job gets its event, if the rule names one."""
    if event is None or not isinstance(rule, TriggerRule) or rule.event_argument is None:
        return {}
    return {rule.event_argument: event}


def _request_message(tick: TickRow, text: str, job_type: str, context: TraceParts) -> Message:
    return Message(
        exchange=topology.REQUESTS,
        routing_key=job_type,
        body=text.encode(),
        content_type=EVENT_TYPE,
        message_id=str(tick.job_id),
        type=_REQUESTED,
        headers=trace_headers(*context),
        mandatory=True,
    )


def _requested_json(
    spec: events.SchedulePutData, source: str, job_id: UUID, moment: datetime, arguments: events.JsonObject
) -> str:
    """Write `job.requested` for one tick of a schedule, with these arguments."""
    name = str(job_id)
    data = to_json(arguments, inf_nan_mode="null").decode()
    return _request_writer(source).text(
        name,
        shared_moment_json(moment),
        name,
        f'{{"job_type":"{spec.job_type}","arguments":{data}{_optional_fields(spec)}}}',
    )


@lru_cache(maxsize=1024)  # one per schedule
def _request_writer(source: str) -> EventWriter:
    return EventWriter(events.JobRequested, source)


def _optional_fields(spec: events.SchedulePutData) -> str:
    queue = "" if spec.queue is None else f',"queue":"{spec.queue}"'
    policy = "" if spec.policy is None else f',"policy":{spec.policy.model_dump_json(exclude_none=True)}'
    return queue + policy

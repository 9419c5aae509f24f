"""The requests and the event of a tick, as text for the store and as messages. Pure.

The store holds the text of a request until the broker has confirmed it. Requests and events are written
without validation: their contents were validated when the schedule was put, or are our own.
`tests/test_tick_messages.py` compares the bytes with those of the event classes.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

from pydantic_core import to_json

from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import (
    JobCancelRequested,
    JobCancelRequestedData,
    JobRequested,
    JsonObject,
    SchedulePutData,
    ScheduleTicked,
)
from warrener_contracts.identity import schedule_source
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, Message, build_message, encode
from warrener_contracts.registry import type_of
from warrener_contracts.schedule_rules import OverlapPolicy, Rule
from warrener_contracts.templates import render
from warrener_contracts.triggers import TriggerRule
from warrener_contracts.writer import EventWriter, shared_moment_json
from warrener_scheduler.messages import SOURCE
from warrener_store.schedules.rows import TickRow

_REQUESTED = type_of(JobRequested)
_TICKED = EventWriter(ScheduleTicked, SOURCE)


def request_text(
    spec: SchedulePutData,
    job_id: UUID,
    now: datetime,
    cancelled: UUID | None = None,
    *,
    names: Mapping[str, Any] | None = None,
    event: JsonObject | None = None,
) -> str:
    """Write a CloudEvents batch: the request for one job, behind the cancel of another one if there is any.

    The placeholders of the arguments are filled from `names`. `event`: the event that has made the tick, if
    any.
    """
    source = schedule_source(spec.name)
    arguments = spec.arguments if names is None else _render(spec.arguments, names)
    text = _requested_json(spec, source, job_id, now, arguments | _event_argument(spec.rule, event))
    if cancelled is None:
        return f"[{text}]"
    cancel = JobCancelRequested(
        id=str(uuid5(cancelled, str(job_id))),
        source=source,
        time=now,
        subject=str(cancelled),
        data=JobCancelRequestedData(job_id=cancelled, reason=f"the next tick of {spec.name} is due"),
    )
    return f"[{encode(cancel).decode()},{text}]"


def request_messages(tick: TickRow, spec: SchedulePutData | None = None) -> list[Message]:
    """Build the requests of a tick; the same each time they are published.

    `spec`: the schedule of a tick that was just decided: a single event is then not parsed again.
    """
    if tick.request is None:
        return []
    if spec is not None and spec.choices.overlap is not OverlapPolicy.CANCEL:
        return [_request_message(tick, tick.request[1:-1], spec.job_type)]
    found = decode(tick.request.encode(), BATCH_TYPE)
    return [build_message(one.event) for one in found if isinstance(one, DecodedEvent)]


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


def _render(arguments: JsonObject, names: Mapping[str, Any]) -> JsonObject:
    """Fill the placeholders. One that this release does not know, of a newer scheduler's put, stays as it
    is: deciding a tick never fails at it."""
    rendered: JsonObject = render(arguments, names, missing=lambda unknown: unknown.source)
    return rendered


def _event_argument(rule: Rule, event: JsonObject | None) -> JsonObject:
    """Return the argument in which the job gets its event, if the rule names one."""
    if event is None or not isinstance(rule, TriggerRule) or rule.event_argument is None:
        return {}
    return {rule.event_argument: event}


def _request_message(tick: TickRow, text: str, job_type: str) -> Message:
    return Message(
        exchange=topology.REQUESTS,
        routing_key=job_type,
        body=text.encode(),
        content_type=EVENT_TYPE,
        message_id=str(tick.job_id),
        type=_REQUESTED,
        headers={},
        mandatory=True,
    )


def _requested_json(
    spec: SchedulePutData, source: str, job_id: UUID, moment: datetime, arguments: JsonObject
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
    return EventWriter(JobRequested, source)


def _optional_fields(spec: SchedulePutData) -> str:
    queue = "" if spec.queue is None else f',"queue":"{spec.queue}"'
    policy = "" if spec.policy is None else f',"policy":{spec.policy.model_dump_json(exclude_none=True)}'
    return queue + policy

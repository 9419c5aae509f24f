"""The requests and the event of a tick, as text for the store and as messages. Pure.

The store holds the text of a request until the broker has confirmed it. Requests and events are written as
JSON without a model: their contents were validated when the schedule was put, or are our own.
`tests/test_tick_messages.py` compares them with the events as the contracts write them, byte for byte.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
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
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, Message, build_message, encode, message_id
from warrener_contracts.registry import type_of
from warrener_contracts.schedule_rules import OverlapPolicy, Rule
from warrener_contracts.triggers import TriggerRule
from warrener_scheduler.messages import SOURCE
from warrener_scheduler.templates import render
from warrener_store.schedules.rows import TickRow

_SCHEDULE_SOURCE = "warrener/schedule/"
_REQUESTED = type_of(JobRequested)
_TICKED = type_of(ScheduleTicked)
_JSON = '"datacontenttype":"application/json","data":{'


def schedule_source(schedule: str) -> str:
    """Return the source of the requests of a schedule."""
    return f"{_SCHEDULE_SOURCE}{schedule}"


def schedule_from_source(source: str) -> str | None:
    """Return the schedule whose requests have this source; None for any other source."""
    name = source.removeprefix(_SCHEDULE_SOURCE)
    return name if name != source else None


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
    arguments = spec.arguments if names is None else render(spec.arguments, names)
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
    return Message(
        exchange=topology.EVENTS,
        routing_key=f"schedule.ticked.{tick.status.value}.{tick.schedule}",
        body=_ticked_json(tick, event_id).encode(),
        content_type=EVENT_TYPE,
        message_id=message_id(event_id),
        type=_TICKED,
        headers={},
    )


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
    return (
        f'{{"specversion":"1.0","id":"{job_id}","source":"{source}","type":"{_REQUESTED}",'
        f'"time":{_moment(moment)},"subject":"{job_id}",{_JSON}"job_type":"{spec.job_type}",'
        f'"arguments":{to_json(arguments, inf_nan_mode="null").decode()}{_optional_fields(spec)}}}}}'
    )


def _ticked_json(tick: TickRow, event_id: str) -> str:
    """Write `schedule.ticked`."""
    job = "" if tick.job_id is None else f',"job_id":"{tick.job_id}"'
    late = max((tick.decided_at - tick.due_at).total_seconds(), 0.0)
    return (
        f'{{"specversion":"1.0","id":"{event_id}","source":"{SOURCE}","type":"{_TICKED}",'
        f'"time":{_moment(tick.decided_at)},"subject":"{tick.schedule}",{_JSON}"name":"{tick.schedule}",'
        f'"nominal_at":{_moment(tick.nominal_at)},"status":"{tick.status.value}",'
        f'"reason":{to_json(tick.reason).decode()}{job},"late_seconds":{to_json(late).decode()}}}}}'
    )


def _optional_fields(spec: SchedulePutData) -> str:
    queue = "" if spec.queue is None else f',"queue":"{spec.queue}"'
    policy = "" if spec.policy is None else f',"policy":{spec.policy.model_dump_json(exclude_none=True)}'
    return queue + policy


@lru_cache(maxsize=8)  # most ticks of one batch have the same moments
def _moment(moment: datetime) -> str:
    return to_json(moment.astimezone(UTC)).decode()

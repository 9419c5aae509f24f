"""What a tick asks for: as text that the ledger keeps until the broker has confirmed it, and as letters."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import JobCancelRequested, JobCancelRequestedData, SchedulePutData
from warrener_contracts.fields import JsonObject
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, Message, build_message, encode, message_id
from warrener_contracts.schedule_rules import OverlapPolicy, Rule
from warrener_contracts.triggers import TriggerRule
from warrener_scheduler.schedules.templating import render
from warrener_scheduler.schedules.tick_event_json import REQUESTED, TICKED, requested_json, ticked_json
from warrener_store.schedules.rows import TickRow

_SOURCE = "warrener/schedule/"


def schedule_source(schedule: str) -> str:
    """Who asks for the jobs of a schedule."""
    return f"{_SOURCE}{schedule}"


def schedule_from_source(source: str) -> str | None:
    """The schedule whose jobs this source asks for, if it is one."""
    name = source.removeprefix(_SOURCE)
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
    """A CloudEvents batch: the request for one job, behind the one to cancel another if there is any. The
    places of its arguments are filled from `names`. `event`: what has started it, where something has."""
    source = schedule_source(spec.name)
    arguments = spec.arguments if names is None else render(spec.arguments, names)
    text = requested_json(spec, source, job_id, now, arguments | _event_argument(spec.rule, event))
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


def _event_argument(rule: Rule, event: JsonObject | None) -> JsonObject:
    """The argument in which the job gets its event, if it is to."""
    if event is None or not isinstance(rule, TriggerRule) or rule.event_as is None:
        return {}
    return {rule.event_as: event}


def request_messages(tick: TickRow, spec: SchedulePutData | None = None) -> list[Message]:
    """The requests of a tick, ready to be published; the same whenever they are published again.

    `spec`: its schedule, where it has just been decided. What is a single event is not read again then.
    """
    if tick.request is None:
        return []
    if spec is not None and spec.choices.overlap is not OverlapPolicy.CANCEL:
        return [_request_message(tick, tick.request[1:-1], spec.job_type)]
    found = decode(tick.request.encode(), BATCH_TYPE)
    return [build_message(one.event) for one in found if isinstance(one, DecodedEvent)]


def ticked_message(tick: TickRow) -> Message:
    """What became of a tick, for whoever listens."""
    event_id = f"{tick.schedule}:{tick.nominal_at.isoformat()}:{tick.fate.value}"
    return Message(
        exchange=topology.EVENTS,
        routing_key=f"schedule.ticked.{tick.fate.value}.{tick.schedule}",
        body=ticked_json(tick, event_id).encode(),
        content_type=EVENT_TYPE,
        message_id=message_id(event_id),
        type=TICKED,
        headers={},
    )


def _request_message(tick: TickRow, text: str, job_type: str) -> Message:
    return Message(
        exchange=topology.REQUESTS,
        routing_key=job_type,
        body=text.encode(),
        content_type=EVENT_TYPE,
        message_id=str(tick.job_id),
        type=REQUESTED,
        headers={},
        mandatory=True,
    )

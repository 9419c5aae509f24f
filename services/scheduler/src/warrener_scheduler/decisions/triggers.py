"""Decide which schedules have waited for an event, and which arrivals it makes. Pure.

Conditions compare data with data; nothing is executed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_contracts import triggers
from warrener_contracts.codec import JsonArrayElements
from warrener_contracts.events import Reason, SchedulePutData
from warrener_contracts.identity import event_identity, schedule_source
from warrener_contracts.json_safety import find_unsafe_value, is_array, is_object
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import EVENTS, MAX_BODY
from warrener_runtime.bus.types import matches
from warrener_store.encoding import encode
from warrener_store.jobs.rows import JobRow
from warrener_store.schedules.rows import ArrivalRow

_ENDS: Mapping[triggers.UpstreamEnd, frozenset[str]] = {
    triggers.UpstreamEnd.SUCCEEDED: frozenset({JobState.SUCCEEDED}),
    triggers.UpstreamEnd.FAILED: frozenset({JobState.DEAD, JobState.EXPIRED}),
    triggers.UpstreamEnd.FINISHED: frozenset(
        {JobState.SUCCEEDED, JobState.DEAD, JobState.EXPIRED, JobState.CANCELLED}
    ),
}
_FINISHED, _TICKED = "job.finished.", "schedule.ticked."
_MAX_EVENT_BYTES = MAX_BODY // 2
"""Bytes of an event: a request that carries it must not exceed the size of a message."""
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class IncomingEvent:
    """An event that was received; `time` is when it happened, as far as that is known."""

    id: str
    source: str
    type: str | None
    time: datetime
    exchange: str
    key: str
    data: Any
    origin: bytes | JsonArrayElements = field(compare=False, repr=False)
    place: int = field(default=0, compare=False, repr=False)
    traceparent: str | None = field(default=None, compare=False)

    @property
    def body(self) -> bytes:
        """The text of the event as it was received; of a batch, that of the element."""
        return self.origin if isinstance(self.origin, bytes) else self.origin[self.place]

    @property
    def identity(self) -> UUID:
        """The same for a repeat of the event."""
        return event_identity(self.source, self.id)

    def document(self) -> dict[str, Any]:
        """Return the event as conditions see it and as jobs get it."""
        trace = {"traceparent": self.traceparent} if self.traceparent else {}
        return {
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "time": self.time.isoformat().replace("+00:00", "Z"),
            "exchange": self.exchange,
            "key": self.key,
            **trace,
            "data": self.data,
        }


class UnusableEvent(ValueError):
    """No request could carry the event, and why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TriggerContext:
    """The knowledge to judge a batch by: the waiting schedules, and the jobs that its events are about."""

    specs: Sequence[SchedulePutData]
    jobs: Mapping[UUID, JobRow]
    now: datetime

    def arrivals_for(self, event: IncomingEvent) -> list[ArrivalRow]:
        """Return an arrival for each schedule that has waited for the event. Raises UnusableEvent."""
        found = ((one.name, matched_upstream(one, event, self.jobs)) for one in self.specs)
        waited = [(name, upstream) for name, upstream in found if upstream is not None]
        if not waited:
            return []
        document = event.document()
        if finding := find_unsafe_value(document):
            raise UnusableEvent(Reason.BAD_FIELDS, finding)
        text = encode(document)
        if len(text) > _MAX_EVENT_BYTES:
            raise UnusableEvent(
                Reason.TOO_LARGE,
                f"expected an event of at most {_MAX_EVENT_BYTES} bytes, got {len(text)}: put the "
                "data elsewhere and send its URL",
            )
        return [
            ArrivalRow(
                schedule=name,
                event_id=event.identity,
                occurred_at=event.time,
                received_at=self.now,
                upstream=upstream,
                event=text,
            )
            for name, upstream in waited
        ]


def states_of_end(end: triggers.UpstreamEnd) -> list[str]:
    """Return the states that count as such an end."""
    return sorted(_ENDS[end])


def may_match(spec: SchedulePutData, exchange: str, key: str) -> bool:
    """True if messages of this address may be for the schedule."""
    match spec.rule:
        case triggers.EventRule() as rule:
            return rule.exchange == exchange and matches(rule.key, key)
        case triggers.AfterRule():
            return exchange == EVENTS and key.startswith(_FINISHED)
        case _:
            return False


def find_job_ids(specs: Sequence[SchedulePutData], events: Iterable[IncomingEvent]) -> set[UUID]:
    """Return the jobs that must be read to know which schedule has requested them."""
    if not any(_needs_job_rows(one) for one in specs):
        return set()
    return {job_id for event in events if (job_id := _job_id_in(event)) is not None}


def matched_upstream(spec: SchedulePutData, event: IncomingEvent, jobs: Mapping[UUID, JobRow]) -> str | None:
    """Return the upstream that has ended, empty for an event; None if the schedule has not waited for it."""
    choices = spec.choices
    if choices.start is not None and event.time < choices.start:
        return None
    if choices.end is not None and event.time > choices.end:
        return None
    match spec.rule:
        case triggers.EventRule() as rule if may_match(spec, event.exchange, event.key):
            own = _is_own_event(spec, event, jobs)
            return "" if not own and passes(event.document(), rule.where) else None
        case triggers.AfterRule() as rule if event.exchange == EVENTS and (event.type or "").startswith(
            _FINISHED
        ):
            ended = (one for one in rule.upstreams if _has_ended(one, event, jobs))
            return next((one.name for one in ended), None)
        case _:
            return None


def _job_id_in(event: IncomingEvent) -> UUID | None:
    """Return the job that one of our events is about."""
    if event.exchange != EVENTS or not is_object(event.data):
        return None
    try:
        return UUID(str(event.data.get("job_id")))
    except ValueError:
        return None


def _needs_job_rows(spec: SchedulePutData) -> bool:
    match spec.rule:
        case triggers.EventRule() as rule:
            return rule.exchange == EVENTS
        case triggers.AfterRule() as rule:
            return any(upstream.schedule for upstream in rule.upstreams)
        case _:
            return False


def _has_ended(upstream: triggers.Upstream, event: IncomingEvent, jobs: Mapping[UUID, JobRow]) -> bool:
    if not is_object(event.data) or event.data.get("state") not in _ENDS[upstream.end]:
        return False
    if upstream.schedule is None:
        return bool(event.data.get("job_type") == upstream.job_type)
    return _is_job_of_schedule(upstream.schedule, event, jobs)


def _is_own_event(spec: SchedulePutData, event: IncomingEvent, jobs: Mapping[UUID, JobRow]) -> bool:
    """True for events about the schedule's own ticks or jobs: those must not start it again."""
    if event.exchange != EVENTS:
        return False
    if (event.type or "").startswith(_TICKED) and is_object(event.data):
        return bool(event.data.get("name") == spec.name)
    return _is_job_of_schedule(spec.name, event, jobs)


def _is_job_of_schedule(schedule: str, event: IncomingEvent, jobs: Mapping[UUID, JobRow]) -> bool:
    job_id = _job_id_in(event)
    row = None if job_id is None else jobs.get(job_id)
    return row is not None and row.source == schedule_source(schedule)


# -- conditions ----------------------------------------------------------------------------------------------


def passes(document: Mapping[str, Any], where: Iterable[triggers.Condition]) -> bool:
    """True if all conditions hold."""
    return all(_holds(condition, _at(document, condition.path)) for condition in where)


def _at(document: object, path: str) -> object:
    """Return the value at a path; `_NOTHING` if there is none."""
    value: object = document
    for name in path.split("."):
        if is_object(value) and name in value:
            value = value[name]
        elif is_array(value) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return _NOTHING
    return value


def _holds(condition: triggers.Condition, found: object) -> bool:
    match condition.check:
        case triggers.ConditionOperator.EXISTS | triggers.ConditionOperator.ABSENT as check:
            return (found is not _NOTHING) == (check is triggers.ConditionOperator.EXISTS)
        case triggers.ConditionOperator.EQUALS | triggers.ConditionOperator.DIFFERS as check:
            return _same(found, condition.value) == (check is triggers.ConditionOperator.EQUALS)
        case triggers.ConditionOperator.ONE_OF:
            return any(_same(found, one) for one in condition.value)
        case check:
            return _in_order(check, found, condition.value)


def _same(found: object, wanted: object) -> bool:
    """Compare as JSON does: true is not 1."""
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def _in_order(check: triggers.ConditionOperator, found: Any, wanted: Any) -> bool:
    numbers = _number(found) and _number(wanted)
    if not numbers and not (isinstance(found, str) and isinstance(wanted, str)):
        return False
    match check:
        case triggers.ConditionOperator.LESS:
            return bool(found < wanted)
        case triggers.ConditionOperator.AT_MOST:
            return bool(found <= wanted)
        case triggers.ConditionOperator.MORE:
            return bool(found > wanted)
        case _:
            return bool(found >= wanted)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""Which schedules have waited for an event. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from warrener_contracts.events import SchedulePutData
from warrener_contracts.json_safety import is_object
from warrener_contracts.states import JobState
from warrener_contracts.topology import EVENTS
from warrener_contracts.triggers import AfterRule, EventRule, Upstream, UpstreamEnd
from warrener_runtime.bus.topics import matches
from warrener_scheduler.schedules.tick_messages import schedule_source
from warrener_scheduler.triggers.conditions import passes
from warrener_scheduler.triggers.incoming_events import IncomingEvent
from warrener_store.jobs.rows import JobRow

_ENDS: Mapping[UpstreamEnd, frozenset[str]] = {
    UpstreamEnd.SUCCEEDED: frozenset({JobState.SUCCEEDED}),
    UpstreamEnd.FAILED: frozenset({JobState.DEAD, JobState.EXPIRED}),
    UpstreamEnd.FINISHED: frozenset(
        {JobState.SUCCEEDED, JobState.DEAD, JobState.EXPIRED, JobState.CANCELLED}
    ),
}
_FINISHED, _TICKED = "job.finished.", "schedule.ticked."


def states_of_end(end: UpstreamEnd) -> list[str]:
    """The states that are such an end."""
    return sorted(_ENDS[end])


def may_match(spec: SchedulePutData, exchange: str, key: str) -> bool:
    """Whether messages of this address may be for the schedule."""
    match spec.rule:
        case EventRule() as rule:
            return rule.exchange == exchange and matches(rule.key, key)
        case AfterRule():
            return exchange == EVENTS and key.startswith(_FINISHED)
        case _:
            return False


def job_id_in(event: IncomingEvent) -> UUID | None:
    """The job that an event of ours is about."""
    if event.exchange != EVENTS or not is_object(event.data):
        return None
    try:
        return UUID(str(event.data.get("job_id")))
    except ValueError:
        return None


def find_job_ids(specs: Sequence[SchedulePutData], events: Iterable[IncomingEvent]) -> set[UUID]:
    """The jobs of which must be known which schedule has asked for them, if any."""
    if not any(_needs_job_rows(one) for one in specs):
        return set()
    return {job_id for event in events if (job_id := job_id_in(event)) is not None}


def matched_upstream(spec: SchedulePutData, event: IncomingEvent, jobs: Mapping[UUID, JobRow]) -> str | None:
    """None: it has not. Else which of its upstreams has ended, empty for an event."""
    choices = spec.choices
    if choices.start is not None and event.time < choices.start:
        return None
    if choices.end is not None and event.time > choices.end:
        return None
    match spec.rule:
        case EventRule() as rule if may_match(spec, event.exchange, event.key):
            own = _is_own_event(spec, event, jobs)
            return "" if not own and passes(event.document(), rule.where) else None
        case AfterRule() as rule if event.exchange == EVENTS and (event.type or "").startswith(_FINISHED):
            ended = (one for one in rule.upstreams if _has_ended(one, event, jobs))
            return next((one.name for one in ended), None)
        case _:
            return None


def _needs_job_rows(spec: SchedulePutData) -> bool:
    match spec.rule:
        case EventRule() as rule:
            return rule.exchange == EVENTS
        case AfterRule() as rule:
            return any(upstream.schedule for upstream in rule.upstreams)
        case _:
            return False


def _has_ended(upstream: Upstream, event: IncomingEvent, jobs: Mapping[UUID, JobRow]) -> bool:
    if not is_object(event.data) or event.data.get("state") not in _ENDS[upstream.end]:
        return False
    if upstream.schedule is None:
        return bool(event.data.get("job_type") == upstream.job_type)
    return _is_job_of_schedule(upstream.schedule, event, jobs)


def _is_own_event(spec: SchedulePutData, event: IncomingEvent, jobs: Mapping[UUID, JobRow]) -> bool:
    """Whether it tells of the schedule's own ticks or jobs: what follows from them must not start it anew."""
    if event.exchange != EVENTS:
        return False
    if (event.type or "").startswith(_TICKED) and is_object(event.data):
        return bool(event.data.get("name") == spec.name)
    return _is_job_of_schedule(spec.name, event, jobs)


def _is_job_of_schedule(schedule: str, event: IncomingEvent, jobs: Mapping[UUID, JobRow]) -> bool:
    job_id = job_id_in(event)
    row = None if job_id is None else jobs.get(job_id)
    return row is not None and row.source == schedule_source(schedule)

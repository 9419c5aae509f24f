"""Where each event goes: exchange and routing key."""

from functools import singledispatch
from typing import Any

from pydantic import TypeAdapter, ValidationError

from warrener_contracts import topology
from warrener_contracts.events import (
    AgentAnnounced,
    AgentHeartbeat,
    AgentHeartbeatRequested,
    AgentLost,
    AttemptCancel,
    AttemptData,
    AttemptDispatched,
    BreakerChanged,
    BreakerSetRequested,
    Event,
    IncidentAcknowledgeRequested,
    IncidentCloseRequested,
    IncidentSnoozeRequested,
    JobCancelRequested,
    JobDead,
    JobDeadlinePassed,
    JobDeduplicated,
    JobDropRequested,
    JobFinished,
    JobRedriveRequested,
    JobRejected,
    JobRequested,
    JobRetrying,
    JobWaiting,
    ParkedDropRequested,
    ParkedRequeueRequested,
    RedriveChangeRequested,
    ScheduleBackfillRequested,
    SchedulePauseRequested,
    SchedulePut,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTicked,
    ScheduleTriggerRequested,
    ServiceUnresponsive,
)
from warrener_contracts.events.fields import JobType

_JOB_TYPE: TypeAdapter[str] = TypeAdapter(JobType)


@singledispatch
def address_of(event: Event[Any]) -> tuple[str, str]:
    """The exchange and the routing key of `event`. Status events go by their type; the others say where."""
    data: object = event.data
    if isinstance(data, AttemptData):
        return topology.STATUS, f"{_unversioned(event)}.{data.job_type}"
    raise TypeError(f"expected an event of the wire, got {event.type!r}: it has no address")


@address_of.register
def _(event: JobRequested) -> tuple[str, str]:
    return topology.REQUESTS, event.data.job_type


@address_of.register(JobCancelRequested)
@address_of.register(BreakerSetRequested)
@address_of.register(JobRedriveRequested)
@address_of.register(JobDropRequested)
@address_of.register(RedriveChangeRequested)
@address_of.register(SchedulePut)
@address_of.register(SchedulePauseRequested)
@address_of.register(ScheduleResumeRequested)
@address_of.register(ScheduleRemoveRequested)
@address_of.register(ScheduleTriggerRequested)
@address_of.register(ScheduleBackfillRequested)
def _(event: Event[Any]) -> tuple[str, str]:
    return topology.REQUESTS, _unversioned(event)


@address_of.register(JobDeadlinePassed)
@address_of.register(IncidentAcknowledgeRequested)
@address_of.register(IncidentSnoozeRequested)
@address_of.register(IncidentCloseRequested)
@address_of.register(ParkedDropRequested)
@address_of.register(ParkedRequeueRequested)
def _(event: Event[Any]) -> tuple[str, str]:
    return topology.STATUS, _unversioned(event)


@address_of.register
def _(event: ScheduleTicked) -> tuple[str, str]:
    return topology.EVENTS, f"schedule.ticked.{event.data.fate}.{event.data.name}"


@address_of.register
def _(event: BreakerChanged) -> tuple[str, str]:
    return topology.EVENTS, f"breaker.changed.{event.data.state}"


@address_of.register
def _(event: AgentAnnounced) -> tuple[str, str]:
    return topology.REQUESTS, "agent.announced"


@address_of.register
def _(event: AttemptDispatched) -> tuple[str, str]:
    return topology.DISPATCH, f"{event.data.queue}.{event.data.job_type}"


@address_of.register
def _(event: AgentHeartbeat) -> tuple[str, str]:
    return topology.HEARTBEATS, f"agent.{event.data.agent_id}"


@address_of.register
def _(event: AgentHeartbeatRequested) -> tuple[str, str]:
    return topology.CONTROL, f"agent.{event.data.agent_id}"


@address_of.register
def _(event: AttemptCancel) -> tuple[str, str]:
    return topology.CONTROL, "all"


@address_of.register
def _(event: JobRejected) -> tuple[str, str]:
    return topology.EVENTS, f"job.rejected.{_word(event.data.job_type)}"


@address_of.register
def _(event: JobDeduplicated) -> tuple[str, str]:
    return topology.EVENTS, "job.deduplicated"


@address_of.register
def _(event: JobFinished) -> tuple[str, str]:
    return topology.EVENTS, f"job.finished.{event.data.state}.{event.data.job_type}"


@address_of.register
def _(event: JobRetrying) -> tuple[str, str]:
    return topology.EVENTS, f"job.retrying.{event.data.job_type}"


@address_of.register
def _(event: JobWaiting) -> tuple[str, str]:
    return topology.EVENTS, f"job.waiting.{event.data.job_type}"


@address_of.register
def _(event: JobDead) -> tuple[str, str]:
    return topology.EVENTS, f"job.dead.{event.data.job_type}"


@address_of.register
def _(event: AgentLost) -> tuple[str, str]:
    return topology.EVENTS, f"agent.lost.{event.data.agent_id}"


@address_of.register
def _(event: ServiceUnresponsive) -> tuple[str, str]:
    return topology.EVENTS, f"service.deaf.{event.data.service}"


def _unversioned(event: Event[Any]) -> str:
    """`attempt.started` of `attempt.started.v1`."""
    return event.type.rpartition(".")[0]


def _word(job_type: str | None) -> str:
    """A rejected request may hold anything as its job type; a routing key may not."""
    try:
        return _JOB_TYPE.validate_python(job_type)
    except ValidationError:
        return "unknown"

"""The events of the wire, by what they are about. Each class is one version of one event.

A class declares its route and its example beside its fields (`events.envelope`); export it here, for type
checkers and in `_NAMES`. Each module is imported when one of its names is used first: pydantic takes
milliseconds for each class, and most programs use a few.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from warrener_contracts.fields import JsonObject, Timestamp
from warrener_contracts.schedule_words import TickStatus

if TYPE_CHECKING:
    from warrener_contracts.events.agents import (
        AgentAnnounced,
        AgentAnnouncedData,
        AgentHeartbeat,
        AgentHeartbeatData,
        AgentHeartbeatRequested,
        AgentHeartbeatRequestedData,
        AgentLost,
        AgentLostData,
        HeartbeatAttempt,
        JobTypeDeclaration,
        ScheduleDeclaration,
        ServiceUnresponsive,
        ServiceUnresponsiveData,
    )
    from warrener_contracts.events.attempts import (
        AttemptCancelled,
        AttemptCancelledData,
        AttemptCheckpointed,
        AttemptCheckpointedData,
        AttemptData,
        AttemptFailed,
        AttemptFailedData,
        AttemptLost,
        AttemptLostData,
        AttemptProgressed,
        AttemptProgressedData,
        AttemptReleased,
        AttemptReleasedData,
        AttemptStarted,
        AttemptStartedData,
        AttemptStartTimedOut,
        AttemptStartTimedOutData,
        AttemptSucceeded,
        AttemptSucceededData,
        AttemptTimedOut,
        AttemptTimedOutData,
    )
    from warrener_contracts.events.breakers import (
        BreakerChanged,
        BreakerChangedData,
        BreakerSetRequested,
        BreakerSetRequestedData,
    )
    from warrener_contracts.events.commands import (
        CommandData,
        CommandHandled,
        CommandHandledData,
    )
    from warrener_contracts.events.data import EventData
    from warrener_contracts.events.dead_letters import (
        DeadLetterSelection,
        JobDropRequested,
        JobDropRequestedData,
        JobRedriveRequested,
        JobRedriveRequestedData,
        ParkedDropRequested,
        ParkedDropRequestedData,
        ParkedRequeueRequested,
        ParkedRequeueRequestedData,
        RedriveChangeRequested,
        RedriveChangeRequestedData,
    )
    from warrener_contracts.events.dispatch import (
        MAX_CHECKPOINT,
        AttemptCancel,
        AttemptCancelData,
        AttemptDispatched,
        AttemptDispatchedData,
        Checkpoint,
    )
    from warrener_contracts.events.envelope import (
        Event,
        EventClass,
    )
    from warrener_contracts.events.errors import (
        ErrorInfo,
        ErrorKind,
        FlightRecord,
    )
    from warrener_contracts.events.incidents import (
        IncidentAcknowledgeRequested,
        IncidentAcknowledgeRequestedData,
        IncidentCloseRequested,
        IncidentCloseRequestedData,
        IncidentSnoozeRequested,
        IncidentSnoozeRequestedData,
    )
    from warrener_contracts.events.jobs import (
        JobDead,
        JobDeadData,
        JobDeadlinePassed,
        JobDeadlinePassedData,
        JobFinished,
        JobFinishedData,
        JobRetrying,
        JobRetryingData,
        JobWaiting,
        JobWaitingData,
    )
    from warrener_contracts.events.logs import AttemptLogged, AttemptLoggedData, LogEntry
    from warrener_contracts.events.requests import (
        JobCancelRequested,
        JobCancelRequestedData,
        JobDeduplicated,
        JobDeduplicatedData,
        JobRejected,
        JobRejectedData,
        JobRequested,
        JobRequestedData,
        Reason,
    )
    from warrener_contracts.events.schedule_definition import SchedulePutData
    from warrener_contracts.events.schedules import (
        MAX_BACKFILL_TICKS,
        ScheduleBackfillRequested,
        ScheduleBackfillRequestedData,
        ScheduleCommandData,
        SchedulePauseRequested,
        SchedulePut,
        ScheduleRemoveRequested,
        ScheduleResumeRequested,
        ScheduleTicked,
        ScheduleTickedData,
        ScheduleTriggerRequested,
    )

_NAMES = {
    "agents": "AgentAnnounced AgentAnnouncedData AgentHeartbeat AgentHeartbeatData "
    "AgentHeartbeatRequested AgentHeartbeatRequestedData AgentLost AgentLostData "
    "HeartbeatAttempt JobTypeDeclaration ScheduleDeclaration ServiceUnresponsive "
    "ServiceUnresponsiveData",
    "attempts": "AttemptCancelled AttemptCancelledData AttemptCheckpointed AttemptCheckpointedData "
    "AttemptData AttemptFailed AttemptFailedData AttemptLost AttemptLostData "
    "AttemptProgressed AttemptProgressedData AttemptReleased AttemptReleasedData "
    "AttemptStarted AttemptStartedData AttemptStartTimedOut AttemptStartTimedOutData "
    "AttemptSucceeded AttemptSucceededData AttemptTimedOut AttemptTimedOutData",
    "breakers": "BreakerChanged BreakerChangedData BreakerSetRequested BreakerSetRequestedData",
    "commands": "CommandData CommandHandled CommandHandledData",
    "dead_letters": "DeadLetterSelection JobDropRequested JobDropRequestedData JobRedriveRequested "
    "JobRedriveRequestedData ParkedDropRequested ParkedDropRequestedData "
    "ParkedRequeueRequested ParkedRequeueRequestedData RedriveChangeRequested "
    "RedriveChangeRequestedData",
    "dispatch": "MAX_CHECKPOINT AttemptCancel AttemptCancelData AttemptDispatched "
    "AttemptDispatchedData Checkpoint",
    "data": "EventData",
    "envelope": "Event",
    "errors": "ErrorInfo ErrorKind FlightRecord",
    "incidents": "IncidentAcknowledgeRequested IncidentAcknowledgeRequestedData IncidentCloseRequested "
    "IncidentCloseRequestedData IncidentSnoozeRequested IncidentSnoozeRequestedData",
    "jobs": "JobDead JobDeadData JobDeadlinePassed JobDeadlinePassedData JobFinished "
    "JobFinishedData JobRetrying JobRetryingData JobWaiting JobWaitingData",
    "logs": "AttemptLogged AttemptLoggedData LogEntry",
    "requests": "JobCancelRequested JobCancelRequestedData JobDeduplicated JobDeduplicatedData "
    "JobRejected JobRejectedData JobRequested JobRequestedData Reason",
    "schedule_definition": "SchedulePutData",
    "schedules": "MAX_BACKFILL_TICKS ScheduleBackfillRequested ScheduleBackfillRequestedData "
    "ScheduleCommandData SchedulePauseRequested SchedulePut "
    "ScheduleRemoveRequested ScheduleResumeRequested ScheduleTicked ScheduleTickedData "
    "ScheduleTriggerRequested",
}
"""The names that each module exports."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:  # type checkers would take every name for one of this module

    def __getattr__(name: str) -> Any:
        if (home := _HOMES.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return found


def declared_events() -> "Mapping[str, EventClass]":
    """The events of the wire by their versioned type; imports all of their modules."""
    for module in _NAMES:
        import_module(f"{__name__}.{module}")
    from warrener_contracts.events.envelope import DECLARED  # noqa: PLC0415 - see above

    return DECLARED


__all__ = [
    "MAX_BACKFILL_TICKS",
    "MAX_CHECKPOINT",
    "AgentAnnounced",
    "AgentAnnouncedData",
    "AgentHeartbeat",
    "AgentHeartbeatData",
    "AgentHeartbeatRequested",
    "AgentHeartbeatRequestedData",
    "AgentLost",
    "AgentLostData",
    "AttemptCancel",
    "AttemptCancelData",
    "AttemptCancelled",
    "AttemptCancelledData",
    "AttemptCheckpointed",
    "AttemptCheckpointedData",
    "AttemptData",
    "AttemptDispatched",
    "AttemptDispatchedData",
    "AttemptFailed",
    "AttemptFailedData",
    "AttemptLogged",
    "AttemptLoggedData",
    "AttemptLost",
    "AttemptLostData",
    "AttemptProgressed",
    "AttemptProgressedData",
    "AttemptReleased",
    "AttemptReleasedData",
    "AttemptStartTimedOut",
    "AttemptStartTimedOutData",
    "AttemptStarted",
    "AttemptStartedData",
    "AttemptSucceeded",
    "AttemptSucceededData",
    "AttemptTimedOut",
    "AttemptTimedOutData",
    "BreakerChanged",
    "BreakerChangedData",
    "BreakerSetRequested",
    "BreakerSetRequestedData",
    "Checkpoint",
    "CommandData",
    "CommandHandled",
    "CommandHandledData",
    "DeadLetterSelection",
    "ErrorInfo",
    "ErrorKind",
    "Event",
    "EventData",
    "FlightRecord",
    "HeartbeatAttempt",
    "IncidentAcknowledgeRequested",
    "IncidentAcknowledgeRequestedData",
    "IncidentCloseRequested",
    "IncidentCloseRequestedData",
    "IncidentSnoozeRequested",
    "IncidentSnoozeRequestedData",
    "JobCancelRequested",
    "JobCancelRequestedData",
    "JobDead",
    "JobDeadData",
    "JobDeadlinePassed",
    "JobDeadlinePassedData",
    "JobDeduplicated",
    "JobDeduplicatedData",
    "JobDropRequested",
    "JobDropRequestedData",
    "JobFinished",
    "JobFinishedData",
    "JobRedriveRequested",
    "JobRedriveRequestedData",
    "JobRejected",
    "JobRejectedData",
    "JobRequested",
    "JobRequestedData",
    "JobRetrying",
    "JobRetryingData",
    "JobTypeDeclaration",
    "JobWaiting",
    "JobWaitingData",
    "JsonObject",
    "LogEntry",
    "ParkedDropRequested",
    "ParkedDropRequestedData",
    "ParkedRequeueRequested",
    "ParkedRequeueRequestedData",
    "Reason",
    "RedriveChangeRequested",
    "RedriveChangeRequestedData",
    "ScheduleBackfillRequested",
    "ScheduleBackfillRequestedData",
    "ScheduleCommandData",
    "ScheduleDeclaration",
    "SchedulePauseRequested",
    "SchedulePut",
    "SchedulePutData",
    "ScheduleRemoveRequested",
    "ScheduleResumeRequested",
    "ScheduleTicked",
    "ScheduleTickedData",
    "ScheduleTriggerRequested",
    "ServiceUnresponsive",
    "ServiceUnresponsiveData",
    "TickStatus",
    "Timestamp",
]

"""The events of the wire, by what they are about. Each class is one version of one event.

A class declares its route beside its fields (`events.envelope`); export its name in `_NAMES`, and add an
example to `contracts/wire/golden`. Each module is imported when one of its names is used first: pydantic
takes milliseconds for each class, and most programs use a few.
"""

# The names of a module are listed once, in `_NAMES`; type checkers read them from the modules.
# ruff: noqa: F403
# pyright: reportWildcardImportFromLibrary=false

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from warrener_contracts.fields import JsonObject as JsonObject
from warrener_contracts.fields import Timestamp as Timestamp
from warrener_contracts.schedule_words import TickStatus as TickStatus

if TYPE_CHECKING:
    from warrener_contracts.events.agents import *
    from warrener_contracts.events.attempts import *
    from warrener_contracts.events.breakers import *
    from warrener_contracts.events.commands import *
    from warrener_contracts.events.data import *
    from warrener_contracts.events.dead_letters import *
    from warrener_contracts.events.dispatch import *
    from warrener_contracts.events.envelope import Event as Event
    from warrener_contracts.events.envelope import EventClass
    from warrener_contracts.events.errors import *
    from warrener_contracts.events.gates import *
    from warrener_contracts.events.incidents import *
    from warrener_contracts.events.jobs import *
    from warrener_contracts.events.logs import *
    from warrener_contracts.events.requests import *
    from warrener_contracts.events.schedule_definition import *
    from warrener_contracts.events.schedules import *
    from warrener_contracts.events.workflows import *

_NAMES = {
    "agents": "AgentAnnounced AgentAnnouncedData AgentHeartbeat AgentHeartbeatData "
    "AgentHeartbeatRequested AgentHeartbeatRequestedData AgentLost AgentLostData "
    "AttemptsChecked AttemptsCheckedData HeartbeatAttempt JobTypeDeclaration ScheduleDeclaration "
    "ServiceUnresponsive ServiceUnresponsiveData",
    "attempts": "AttemptCancelled AttemptCancelledData AttemptCheckpointed AttemptCheckpointedData "
    "AttemptData AttemptEndedData AttemptFailed AttemptFailedData AttemptLost AttemptLostData "
    "AttemptProgressed AttemptProgressedData AttemptReleased AttemptReleasedData "
    "AttemptStarted AttemptStartedData AttemptStartTimedOut AttemptStartTimedOutData "
    "AttemptSucceeded AttemptSucceededData AttemptSuspended AttemptSuspendedData "
    "AttemptTimedOut AttemptTimedOutData",
    "breakers": "BreakerChanged BreakerChangedData BreakerSetRequested BreakerSetRequestedData",
    "commands": "CommandData CommandHandled CommandHandledData",
    "dead_letters": "DeadLetterSelection JobDropRequested JobDropRequestedData JobRedriveRequested "
    "JobRedriveRequestedData ParkedDropRequested ParkedDropRequestedData "
    "ParkedRequeueRequested ParkedRequeueRequestedData RedriveChangeRequested "
    "RedriveChangeRequestedData",
    "dispatch": "MAX_CHECKPOINT AttemptCancel AttemptCancelData AttemptDispatched "
    "AttemptDispatchedData Checkpoint DispatchedPage EarlierAttempt History",
    "data": "EventData",
    "envelope": "Event",
    "errors": "ErrorInfo ErrorKind FlightRecord",
    "gates": "GateSetRequested GateSetRequestedData",
    "incidents": "IncidentAcknowledgeRequested IncidentAcknowledgeRequestedData IncidentCloseRequested "
    "IncidentCloseRequestedData IncidentSnoozeRequested IncidentSnoozeRequestedData",
    "jobs": "JobDead JobDeadData JobDeadlinePassed JobDeadlinePassedData JobFinished "
    "JobFinishedData JobRetrying JobRetryingData JobWaiting JobWaitingData",
    "logs": "AttemptLogged AttemptLoggedData LogEntry",
    "requests": "JobCancelRequested JobCancelRequestedData JobDeduplicated JobDeduplicatedData "
    "JobRejected JobRejectedData JobRequested JobRequestedData MapBatch MapMember Reason",
    "schedule_definition": "SchedulePutData",
    "schedules": "MAX_BACKFILL_TICKS ScheduleBackfillRequested ScheduleBackfillRequestedData "
    "ScheduleCommandData SchedulePauseRequested SchedulePut "
    "ScheduleRemoveRequested ScheduleResumeRequested ScheduleTicked ScheduleTickedData "
    "ScheduleTriggerRequested",
    "workflows": "MAX_ANSWER MAX_MEMBER_FAILURES MAX_MEMBERS MAX_PAGE MAX_PAGES MAX_SIGNAL_NAME Answer Call "
    "CallKind HeldAction "
    "JobContinueRequested JobContinueRequestedData JobSignalRequested JobSignalRequestedData Journal "
    "MemberFailure MembersEnd PageSize PageSource StepRetry Suspension Turn UndoRequest",
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

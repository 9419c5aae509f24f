"""The events of the wire, by who speaks them. Each class is one released version of one event."""

from warrener_contracts.events.answers import (
    JobDead,
    JobDeadData,
    JobDeduplicated,
    JobDeduplicatedData,
    JobFinished,
    JobFinishedData,
    JobRejected,
    JobRejectedData,
    JobRetrying,
    JobRetryingData,
    Reason,
)
from warrener_contracts.events.dispatch import (
    AttemptCancel,
    AttemptCancelData,
    AttemptDispatched,
    AttemptDispatchedData,
)
from warrener_contracts.events.envelope import Event, EventData, Instant, JsonObject
from warrener_contracts.events.requests import (
    AgentAnnounced,
    AgentAnnouncedData,
    JobCancelRequested,
    JobCancelRequestedData,
    JobRequested,
    JobRequestedData,
    JobTypeDeclaration,
)
from warrener_contracts.events.status import (
    AgentHeartbeat,
    AgentHeartbeatData,
    AttemptCancelled,
    AttemptCancelledData,
    AttemptData,
    AttemptFailed,
    AttemptFailedData,
    AttemptLost,
    AttemptLostData,
    AttemptOverdue,
    AttemptOverdueData,
    AttemptProgressed,
    AttemptProgressedData,
    AttemptReleased,
    AttemptReleasedData,
    AttemptStarted,
    AttemptStartedData,
    AttemptSucceeded,
    AttemptSucceededData,
    AttemptTimedOut,
    AttemptTimedOutData,
    ErrorInfo,
    ErrorKind,
    JobDeadlinePassed,
    JobDeadlinePassedData,
    RunningAttempt,
)

__all__ = [
    "AgentAnnounced", "AgentAnnouncedData", "AgentHeartbeat", "AgentHeartbeatData", "AttemptCancel",
    "AttemptCancelData", "AttemptCancelled", "AttemptCancelledData", "AttemptData", "AttemptDispatched",
    "AttemptDispatchedData", "AttemptFailed", "AttemptFailedData", "AttemptLost", "AttemptLostData",
    "AttemptOverdue", "AttemptOverdueData",
    "AttemptProgressed", "AttemptProgressedData", "AttemptReleased", "AttemptReleasedData", "AttemptStarted",
    "AttemptStartedData", "AttemptSucceeded", "AttemptSucceededData", "AttemptTimedOut", "AttemptTimedOutData",
    "ErrorInfo", "ErrorKind", "Event", "EventData", "Instant", "JobCancelRequested", "JobCancelRequestedData",
    "JobDead", "JobDeadData", "JobDeadlinePassed", "JobDeadlinePassedData", "JobDeduplicated",
    "JobDeduplicatedData", "JobFinished", "JobFinishedData",
    "JobRejected", "JobRejectedData", "JobRequested", "JobRequestedData", "JobRetrying", "JobRetryingData",
    "JobTypeDeclaration", "JsonObject", "Reason", "RunningAttempt",
]

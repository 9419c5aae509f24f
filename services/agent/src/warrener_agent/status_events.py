"""What the agent says about an attempt, as events. Pure."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from warrener_agent.outcomes import Cancelled, Dropped, Failed, Released, Settled, Succeeded
from warrener_contracts.events import (
    AttemptCancelled,
    AttemptCancelledData,
    AttemptDispatchedData,
    AttemptFailed,
    AttemptFailedData,
    AttemptProgressed,
    AttemptProgressedData,
    AttemptReleased,
    AttemptReleasedData,
    AttemptStarted,
    AttemptStartedData,
    AttemptSucceeded,
    AttemptSucceededData,
    Event,
)
from warrener_runtime.telemetry import TraceContext


class Times(NamedTuple):
    """From when to when an attempt ran."""

    started_at: datetime
    finished_at: datetime


HowFar = tuple[float, str]
"""A fraction of 1, and a note."""


class Speaker:
    """Makes the events of one agent."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id

    def started(
        self, event_id: UUID, about: AttemptDispatchedData, at: datetime, context: TraceContext
    ) -> AttemptStarted:
        """It runs."""
        data = AttemptStartedData(**self._which(about), started_at=at)
        return AttemptStarted(data=data, **self._envelope(event_id, about, at, context))

    def progressed(
        self,
        event_id: UUID,
        about: AttemptDispatchedData,
        at: datetime,
        context: TraceContext,
        how_far: HowFar,
    ) -> AttemptProgressed:
        """It has come so far."""
        fraction, note = how_far
        data = AttemptProgressedData(**self._which(about), fraction=fraction, note=note)
        return AttemptProgressed(data=data, **self._envelope(event_id, about, at, context))

    def ended(
        self,
        event_id: UUID,
        about: AttemptDispatchedData,
        times: Times,
        context: TraceContext,
        outcome: Settled,
    ) -> Event[Any] | None:
        """What became of it; None where nothing is to be said."""
        which, envelope = self._which(about), self._envelope(event_id, about, times.finished_at, context)
        match outcome:
            case Succeeded(completion=completion):
                return AttemptSucceeded(
                    data=AttemptSucceededData(
                        **which,
                        started_at=completion.started_at,
                        finished_at=completion.finished_at,
                        result=completion.result,
                        recorded_attempt=completion.attempt,
                        follow_ups=len(completion.follow_ups),
                    ),
                    **envelope,
                )
            case Failed(error, retry_after, recorded):
                failed = AttemptFailedData(
                    **which,
                    started_at=recorded.started_at if recorded else times.started_at,
                    finished_at=recorded.finished_at if recorded else times.finished_at,
                    error=error,
                    retry_after_seconds=retry_after,
                )
                return AttemptFailed(data=failed, **envelope)
            case Cancelled(reason):
                return AttemptCancelled(
                    data=AttemptCancelledData(
                        **which, started_at=times.started_at, finished_at=times.finished_at, reason=reason
                    ),
                    **envelope,
                )
            case Released(reason):
                return AttemptReleased(data=AttemptReleasedData(**which, reason=reason), **envelope)
            case Dropped():
                return None

    def _which(self, about: AttemptDispatchedData) -> dict[str, Any]:
        return {
            "job_id": about.job_id,
            "attempt": about.attempt,
            "job_type": about.job_type,
            "agent_id": self.agent_id,
        }

    def _envelope(
        self, event_id: UUID, about: AttemptDispatchedData, at: datetime, context: TraceContext
    ) -> dict[str, Any]:
        return {
            "id": str(event_id),
            "source": f"warrener/agent/{self.agent_id}",
            "subject": str(about.job_id),
            "time": at,
            "traceparent": context.traceparent,
            "tracestate": context.tracestate,
        }

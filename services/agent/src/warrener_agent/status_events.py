"""What the agent says about an attempt, as events. Pure."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from pydantic_core import to_json

from warrener_agent.ledger.port import Completion
from warrener_agent.outcomes import Cancelled, Failed, Released, Told
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
    Event,
)
from warrener_contracts.letters import EVENT_TYPE, Letter
from warrener_contracts.topology import STATUS
from warrener_runtime.telemetry import TraceContext

_SUCCEEDED = {
    "specversion": "1.0",
    "type": "attempt.succeeded.v1",
    "datacontenttype": "application/json",
}


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

    def succeeded(
        self, event_id: UUID, about: AttemptDispatchedData, context: TraceContext, completion: Completion
    ) -> Letter:
        """`attempt.succeeded`, ready to be published.

        Most of what an agent says is this, and all of it is from our own hands: so it is written as it would
        be after validation, without it. A test holds it to what the event's model reads and writes.
        """
        envelope = self._envelope(event_id, about, completion.finished_at, context)
        data = {
            **self._which(about),
            "started_at": completion.started_at,
            "finished_at": completion.finished_at,
            "result": completion.result,
            "recorded_attempt": completion.attempt,
            "follow_ups": len(completion.follow_ups),
        }
        return Letter(
            exchange=STATUS,
            routing_key=f"attempt.succeeded.{about.job_type}",
            body=to_json(
                {**_SUCCEEDED, **{key: value for key, value in envelope.items() if value}, "data": data}
            ),
            content_type=EVENT_TYPE,
            message_id=envelope["id"],
            type=_SUCCEEDED["type"],
            headers={name: value for name, value in context._asdict().items() if value},
        )

    def ended(
        self,
        event_id: UUID,
        about: AttemptDispatchedData,
        times: Times,
        context: TraceContext,
        outcome: Told,
    ) -> Event[Any]:
        """What became of it where it did not succeed."""
        which, envelope = self._which(about), self._envelope(event_id, about, times.finished_at, context)
        match outcome:
            case Failed(error, retry_after, recorded):
                failed = AttemptFailedData(
                    **which,
                    started_at=recorded.started_at if recorded else times.started_at,
                    finished_at=recorded.finished_at if recorded else times.finished_at,
                    error=error,
                    retry_after_seconds=retry_after,
                )
                return AttemptFailed(data=failed, **envelope)
            case Cancelled(reason, record):
                return AttemptCancelled(
                    data=AttemptCancelledData(
                        **which,
                        started_at=times.started_at,
                        finished_at=times.finished_at,
                        reason=reason,
                        flight_record=record,
                    ),
                    **envelope,
                )
            case Released(reason):
                return AttemptReleased(data=AttemptReleasedData(**which, reason=reason), **envelope)

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

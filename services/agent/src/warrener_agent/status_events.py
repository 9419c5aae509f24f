"""The status events of attempts. Pure."""

import json
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from pydantic_core import to_json

from warrener_agent.decisions.outcomes import (
    CancelledOutcome,
    FailedOutcome,
    ReleasedOutcome,
    ReportableOutcome,
)
from warrener_agent.failures import HandlerSignal
from warrener_agent.ledger.port import Completion, SavedCheckpoint
from warrener_contracts.events import (
    AttemptCancelled,
    AttemptCancelledData,
    AttemptCheckpointed,
    AttemptCheckpointedData,
    AttemptDispatchedData,
    AttemptFailed,
    AttemptFailedData,
    AttemptProgressed,
    AttemptProgressedData,
    AttemptReleased,
    AttemptReleasedData,
    AttemptStarted,
    AttemptStartedData,
    Checkpoint,
    Event,
)
from warrener_contracts.messages import EVENT_TYPE, Message
from warrener_contracts.topology import STATUS
from warrener_runtime.telemetry import TraceContext

_SUCCEEDED = "attempt.succeeded.v1"


class Times(NamedTuple):
    """The start and the end of an attempt."""

    started_at: datetime
    finished_at: datetime


ProgressValue = tuple[float, str]
"""A fraction of 1, and a note."""


class EventFactory:
    """Builds the events of one agent."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self._source = f"warrener/agent/{agent_id}"
        self._moment: tuple[datetime | None, str] = (None, "")

    def started(
        self, event_id: UUID, dispatch: AttemptDispatchedData, at: datetime, context: TraceContext
    ) -> AttemptStarted:
        data = AttemptStartedData(**self._attempt_fields(dispatch), started_at=at)
        return AttemptStarted(data=data, **self._envelope(event_id, dispatch, at, context))

    def progressed(
        self,
        event_id: UUID,
        dispatch: AttemptDispatchedData,
        at: datetime,
        context: TraceContext,
        progress_value: ProgressValue,
    ) -> AttemptProgressed:
        fraction, note = progress_value
        data = AttemptProgressedData(**self._attempt_fields(dispatch), fraction=fraction, note=note)
        return AttemptProgressed(data=data, **self._envelope(event_id, dispatch, at, context))

    def checkpointed(
        self,
        event_id: UUID,
        dispatch: AttemptDispatchedData,
        at: datetime,
        context: TraceContext,
        saved: SavedCheckpoint,
    ) -> AttemptCheckpointed:
        checkpoint = Checkpoint(number=saved.number, state=json.loads(saved.state_text))
        data = AttemptCheckpointedData(**self._attempt_fields(dispatch), saved_at=at, checkpoint=checkpoint)
        return AttemptCheckpointed(data=data, **self._envelope(event_id, dispatch, at, context))

    def succeeded(
        self, event_id: str, dispatch: AttemptDispatchedData, context: TraceContext, completion: Completion
    ) -> Message:
        """Build the message of `attempt.succeeded`, ready to be published.

        Most messages of an agent are this one, so it is written as text, around a result that is text
        already. Names and ids have passed their patterns and hold nothing that JSON would escape. A test
        compares it with the event's model.
        """
        job_id = str(dispatch.job_id)
        finished_at = _text(completion.finished_at)
        trace = _trace(context) if context.traceparent or context.tracestate else ""
        body = (
            f'{{"specversion":"1.0","id":"{event_id}","source":"{self._source}","type":"{_SUCCEEDED}",'
            f'"time":"{finished_at}","subject":"{job_id}","datacontenttype":"application/json",{trace}'
            f'"data":{{"job_id":"{job_id}","attempt":{dispatch.attempt},"job_type":"{dispatch.job_type}",'
            f'"agent_id":"{self.agent_id}","started_at":"{self._started(completion.started_at)}",'
            f'"finished_at":"{finished_at}","result":{completion.result_text},'
            f'"recorded_attempt":{completion.attempt},"child_jobs":{len(completion.child_jobs)}}}}}'
        )
        return Message(
            STATUS,
            f"attempt.succeeded.{dispatch.job_type}",
            body.encode(),
            EVENT_TYPE,
            event_id,
            _SUCCEEDED,
            {name: value for name, value in context._asdict().items() if value} if trace else {},
        )

    def _started(self, at: datetime) -> str:
        """Format the start; attempts of one batch share it."""
        if at is not self._moment[0]:
            self._moment = (at, _text(at))
        return self._moment[1]

    def ended(
        self,
        event_id: UUID,
        dispatch: AttemptDispatchedData,
        times: Times,
        context: TraceContext,
        outcome: ReportableOutcome,
    ) -> Event[Any]:
        """Build the event of an attempt that did not succeed."""
        fields, envelope = (
            self._attempt_fields(dispatch),
            self._envelope(event_id, dispatch, times.finished_at, context),
        )
        match outcome:
            case FailedOutcome(error, retry_after, recorded, handler_signal):
                ran: dict[str, Any] = {
                    "started_at": recorded.started_at if recorded else times.started_at,
                    "finished_at": recorded.finished_at if recorded else times.finished_at,
                }
                if handler_signal is HandlerSignal.CANCELLED:
                    withdrawn = AttemptCancelledData(**fields, **ran, reason=error.message, by_handler=True)
                    return AttemptCancelled(data=withdrawn, **envelope)
                snoozed = handler_signal is HandlerSignal.SNOOZED
                failed = AttemptFailedData(
                    **fields, **ran, error=error, retry_after_seconds=retry_after, snoozed=snoozed
                )
                return AttemptFailed(data=failed, **envelope)
            case CancelledOutcome(reason, record):
                return AttemptCancelled(
                    data=AttemptCancelledData(
                        **fields,
                        started_at=times.started_at,
                        finished_at=times.finished_at,
                        reason=reason,
                        flight_record=record,
                    ),
                    **envelope,
                )
            case ReleasedOutcome(reason):
                return AttemptReleased(data=AttemptReleasedData(**fields, reason=reason), **envelope)

    def _attempt_fields(self, dispatch: AttemptDispatchedData) -> dict[str, Any]:
        return {
            "job_id": dispatch.job_id,
            "attempt": dispatch.attempt,
            "job_type": dispatch.job_type,
            "agent_id": self.agent_id,
        }

    def _envelope(
        self, event_id: UUID, dispatch: AttemptDispatchedData, at: datetime, context: TraceContext
    ) -> dict[str, Any]:
        return {
            "id": str(event_id),
            "source": self._source,
            "subject": str(dispatch.job_id),
            "time": at,
            "traceparent": context.traceparent,
            "tracestate": context.tracestate,
        }


def _text(at: datetime) -> str:
    """Format a time, which is in UTC, as events do."""
    return at.isoformat().replace("+00:00", "Z")


def _trace(context: TraceContext) -> str:
    fields_text = "" if context.traceparent is None else f'"traceparent":{_json(context.traceparent)},'
    return f'{fields_text}"tracestate":{_json(context.tracestate)},' if context.tracestate else fields_text


def _json(value: str) -> str:
    return to_json(value).decode()

"""The events of attempts. Pure."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from warrener_agent.decisions.outcomes import (
    CancelledOutcome,
    FailedOutcome,
    ReleasedOutcome,
    ReportableOutcome,
)
from warrener_agent.failures import HandlerSignal
from warrener_agent.ledger.port import Completion, SavedCheckpoint
from warrener_agent.log_buffer import NumberedLine
from warrener_contracts.events import (
    AttemptCancelled,
    AttemptCancelledData,
    AttemptCheckpointed,
    AttemptCheckpointedData,
    AttemptDispatchedData,
    AttemptFailed,
    AttemptFailedData,
    AttemptLogged,
    AttemptLoggedData,
    AttemptProgressed,
    AttemptProgressedData,
    AttemptReleased,
    AttemptReleasedData,
    AttemptStarted,
    AttemptStartedData,
    AttemptSucceeded,
    Checkpoint,
    Event,
    LogEntry,
)
from warrener_contracts.messages import Message
from warrener_contracts.writer import EventWriter, moment_json, shared_moment_json
from warrener_runtime.telemetry import TraceContext


class Times(NamedTuple):
    """The start and the end of an attempt."""

    started_at: datetime
    finished_at: datetime


_MAX_LEVEL = 20  # characters of the name of a level

ProgressValue = tuple[float, str]
"""A fraction of 1, and a note."""


class EventFactory:
    """Builds the events of one agent."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self._source = f"warrener/agent/{agent_id}"
        self._succeeded = EventWriter(AttemptSucceeded, self._source)

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

    def logged(
        self,
        event_id: UUID,
        dispatch: AttemptDispatchedData,
        started_at: datetime,
        context: TraceContext,
        lines: Iterable[NumberedLine],
        *,
        final: bool,
    ) -> AttemptLogged:
        """Build the event of new log lines; `final`: no others follow."""
        read = tuple(_to_log_entry(one, context.trace_id, context.span_id) for one in lines)
        fields = self._attempt_fields(dispatch)
        data = AttemptLoggedData(**fields, started_at=started_at, lines=read, final=final)
        return AttemptLogged(data=data, **self._envelope(event_id, dispatch, read[-1].at, context))

    def succeeded(
        self, event_id: str, dispatch: AttemptDispatchedData, context: TraceContext, completion: Completion
    ) -> Message:
        """Build the message of `attempt.succeeded`, ready to be published.

        An agent publishes nothing else as often, and all values are validated or its own, so they are written
        without validation, around a result that is text already. A test compares the event with its model.
        """
        job_id = str(dispatch.job_id)
        finished_at = moment_json(completion.finished_at)
        return self._succeeded.message(
            event_id,
            f"attempt.succeeded.{dispatch.job_type}",
            finished_at,
            job_id,
            f'{{"job_id":"{job_id}","attempt":{dispatch.attempt},"job_type":"{dispatch.job_type}",'
            f'"agent_id":"{self.agent_id}","started_at":{shared_moment_json(completion.started_at)},'
            f'"finished_at":{finished_at},"result":{completion.result_text},'
            f'"recorded_attempt":{completion.attempt},"child_jobs":{len(completion.child_jobs)}}}',
            traceparent=context.traceparent,
            tracestate=context.tracestate,
        )

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


def _to_log_entry(one: NumberedLine, attempt_trace: str | None, attempt_span: str | None) -> LogEntry:
    """Convert a line; one that names no span belongs to that of the attempt."""
    number, (at, level, logger, text, trace_id, span_id), _ = one
    if trace_id is None or span_id is None:
        trace_id, span_id = attempt_trace, attempt_span
    return LogEntry(
        number=number,
        at=at,
        level=level[:_MAX_LEVEL] if level else None,
        logger=logger,
        text=text,
        trace_id=trace_id,
        span_id=span_id,
    )

"""The events of attempts."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from warrener_agent.decisions import outcomes
from warrener_agent.failures import HandlerSignal
from warrener_agent.ledger.port import Completion, SavedCheckpoint
from warrener_agent.log_buffer import NumberedLine
from warrener_agent.run_table import Run
from warrener_contracts import events
from warrener_contracts.messages import Message
from warrener_contracts.writer import EventWriter, moment_json, shared_moment_json
from warrener_runtime.clock import Entropy
from warrener_runtime.telemetry import TraceContext

E = TypeVar("E", bound=events.Event[Any])


_MAX_LEVEL = 20  # characters of the name of a level

ProgressValue = tuple[float, str]  # a fraction of 1, and a note


class EventFactory:
    def __init__(self, agent_id: str, entropy: Entropy) -> None:
        self.agent_id, self._entropy = agent_id, entropy
        self._source = f"warrener/agent/{agent_id}"
        self._succeeded = EventWriter(events.AttemptSucceeded, self._source)

    def started(self, run: Run) -> events.AttemptStarted:
        at = run.started_at
        return self._event(events.AttemptStarted, run.data, at, run.context, {"started_at": at})

    def progressed(self, run: Run, at: datetime, progress_value: ProgressValue) -> events.AttemptProgressed:
        fraction, note = progress_value
        details = {"fraction": fraction, "note": note}
        return self._event(events.AttemptProgressed, run.data, at, run.context, details)

    def checkpointed(self, run: Run, at: datetime, saved: SavedCheckpoint) -> events.AttemptCheckpointed:
        checkpoint = events.Checkpoint(number=saved.number, state=json.loads(saved.state_text))
        details = {"saved_at": at, "checkpoint": checkpoint}
        return self._event(events.AttemptCheckpointed, run.data, at, run.context, details)

    def logged(self, run: Run, lines: Iterable[NumberedLine], *, final: bool) -> events.AttemptLogged:
        """Build the event of new log lines; `final`: no others follow."""
        read = tuple(_to_log_entry(one, run.context.trace_id, run.context.span_id) for one in lines)
        details = {"started_at": run.started_at, "lines": read, "final": final}
        return self._event(events.AttemptLogged, run.data, read[-1].at, run.context, details)

    def succeeded(
        self,
        dispatch: events.AttemptDispatchedData,
        context: TraceContext,
        completion: Completion,
        child_jobs: int,
    ) -> Message:
        """Build the message of `attempt.succeeded`, ready to be published.

        An agent publishes nothing else as often, and all values are validated or its own, so they are written
        without validation, around a result that is text already. A test compares the event with its model.
        """
        job_id = str(dispatch.job_id)
        finished_at = moment_json(completion.finished_at)
        return self._succeeded.message(
            self._entropy.new_id_text(),
            f"attempt.succeeded.{dispatch.job_type}",
            finished_at,
            job_id,
            f'{{"job_id":"{job_id}","attempt":{dispatch.attempt},"job_type":"{dispatch.job_type}",'
            f'"agent_id":"{self.agent_id}","started_at":{shared_moment_json(completion.started_at)},'
            f'"finished_at":{finished_at},"result":{completion.result_text},'
            f'"recorded_attempt":{completion.attempt},"child_jobs":{child_jobs}}}',
            traceparent=context.traceparent,
            tracestate=context.tracestate,
        )

    def ended(
        self,
        dispatch: events.AttemptDispatchedData,
        context: TraceContext,
        outcome: outcomes.ReportableOutcome,
        *,
        started_at: datetime,
        finished_at: datetime,
    ) -> events.Event[Any]:
        """Build the event of an attempt that did not succeed."""
        ran: dict[str, Any] = {"started_at": started_at, "finished_at": finished_at}
        kind: type[events.Event[Any]]
        match outcome:
            case outcomes.FailedOutcome(error, retry_after, recorded, handler_signal):
                if recorded is not None:
                    ran = {"started_at": recorded.started_at, "finished_at": recorded.finished_at}
                if handler_signal is HandlerSignal.CANCELLED:
                    kind, details = (
                        events.AttemptCancelled,
                        {**ran, "reason": error.message, "by_handler": True},
                    )
                else:
                    snoozed = handler_signal is HandlerSignal.SNOOZED
                    kind, details = events.AttemptFailed, {**ran, "error": error, "snoozed": snoozed}
                    details["retry_after_seconds"] = retry_after
            case outcomes.SuspendedOutcome(suspension, _, recorded):
                if recorded is not None:
                    ran = {"started_at": recorded.started_at, "finished_at": recorded.finished_at}
                kind, details = events.AttemptSuspended, {**ran, "suspension": suspension}
            case outcomes.CancelledOutcome(reason, record):
                kind, details = events.AttemptCancelled, {**ran, "reason": reason, "flight_record": record}
            case outcomes.ReleasedOutcome(reason):
                kind, details = events.AttemptReleased, {"reason": reason}
        return self._event(kind, dispatch, finished_at, context, details)

    def _event(
        self,
        kind: type[E],
        dispatch: events.AttemptDispatchedData,
        at: datetime,
        context: TraceContext,
        details: Mapping[str, Any],
    ) -> E:
        """Build an event of this attempt; `details` are the fields of its data that are its own."""
        attempt = {"job_id": dispatch.job_id, "attempt": dispatch.attempt, "job_type": dispatch.job_type}
        return kind.model_validate(
            {
                "id": str(self._entropy.new_id()),
                "source": self._source,
                "subject": str(dispatch.job_id),
                "time": at,
                "traceparent": context.traceparent,
                "tracestate": context.tracestate,
                "data": {**attempt, "agent_id": self.agent_id, **details},
            }
        )


def _to_log_entry(one: NumberedLine, attempt_trace: str | None, attempt_span: str | None) -> events.LogEntry:
    """Convert a line; one that names no span belongs to that of the attempt."""
    number, (at, level, logger, text, trace_id, span_id), _ = one
    if trace_id is None or span_id is None:
        trace_id, span_id = attempt_trace, attempt_span
    return events.LogEntry(
        number=number,
        at=at,
        level=level[:_MAX_LEVEL] if level else None,
        logger=logger,
        text=text,
        trace_id=trace_id,
        span_id=span_id,
    )

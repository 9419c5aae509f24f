"""A judgement as a span of its job's trace."""

from typing import Any

from warrener_contracts.events import Event
from warrener_runtime.telemetry import Telemetry, TraceContext, names
from warrener_store.rows import JobRow
from warrener_store.successes import SucceededJob
from warrener_supervisor.signals import attempt_of


def judge_span(
    telemetry: Telemetry,
    row: JobRow | SucceededJob,
    event: Event[Any],
    verdict: str,
    *,
    otherwise: TraceContext,
) -> TraceContext:
    """A span under that of the event's attempt, or under `otherwise` where it has none; its context."""
    parent = TraceContext(event.traceparent, event.tracestate) if event.traceparent else otherwise
    if not telemetry.records(parent):
        return parent
    attributes: dict[str, str | int] = {
        names.JOB_ID: str(row.job_id),
        names.ATTEMPT: attempt_of(event) or row.attempt,
        names.OUTCOME: event.type,
        names.VERDICT: verdict,
    }
    return telemetry.record_instant(names.judge(row.job_type), parent=parent, attributes=attributes)

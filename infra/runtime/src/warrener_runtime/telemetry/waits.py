"""Record waits as spans once they are over, from the times that a service has stored."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Protocol
from uuid import UUID

from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.provider import Telemetry
from warrener_runtime.telemetry.spans import Attributes, SpanShape, TraceContext

MIN_WAIT = timedelta(milliseconds=10)
"""A shorter wait gets no span, so that a job that never waits costs none."""


class EndedWait(Protocol):
    """A wait that is over, and its cause."""

    @property
    def cause(self) -> str: ...
    @property
    def start(self) -> datetime: ...
    @property
    def end(self) -> datetime | None: ...
    @property
    def attempt(self) -> int: ...


class TracedJob(Protocol):
    """The job that has waited."""

    @property
    def job_id(self) -> UUID: ...
    @property
    def job_type(self) -> str: ...


def record_waits(
    telemetry: Telemetry,
    job: TracedJob,
    waits: Iterable[EndedWait],
    parent: TraceContext,
    own: Attributes | None = None,
) -> None:
    """Record each of `waits` that took long enough, below `parent`; nothing if that trace is not recorded.

    `own`: the attributes of this job's spans, if they are there already.
    """
    if parent.traceparent is None or not telemetry.records(parent):
        return
    own = own or {names.JOB_ID: str(job.job_id)}
    for wait in waits:
        if wait.end is not None and wait.end - wait.start >= MIN_WAIT:
            shape = _shape(job.job_type, wait.cause, wait.attempt)
            telemetry.record(shape, wait.start, wait.end, parent=parent, attributes=own)


@lru_cache(maxsize=1024)
def _shape(job_type: str, cause: str, attempt: int) -> SpanShape:
    return names.WAIT.shape(job_type, {names.WAIT_CAUSE: str(cause), names.ATTEMPT: attempt})

"""Successes: nearly all that becomes of jobs, and the one end that follows from what is told alone.

A success counts whenever it is of the current attempt of a job that is in flight, whatever else is known of
that job (`journey`). So it is written on that condition, and the jobs are not read before.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from warrener_contracts.policy import JobPolicy


class Success(NamedTuple):
    """An attempt has succeeded, and recorded it itself."""

    job_id: UUID
    attempt: int
    agent_id: str
    result: Any
    started_at: datetime
    finished_at: datetime


class SucceededJob(NamedTuple):
    """What there is to tell of a job that a success has ended: as in its JobRow."""

    job_id: UUID
    attempt: int
    result: Any
    finished_at: datetime
    job_type: str
    policy: JobPolicy
    parent_id: UUID | None
    traceparent: str | None
    tracestate: str | None
    requested_at: datetime
    watchers: tuple[str, ...]


class Successes(Protocol):
    """Jobs that end by a success, kept by the engine of the StateStore
    (`tests/conformance/test_store_successes.py`)."""

    async def succeed_jobs(self, successes: Sequence[Success], now: datetime) -> dict[UUID, SucceededJob]:
        """End the jobs of which this is the current attempt, and which are queued, running or retrying.

        What is then in the store is what a save of the judge's ruling would have written. Returns those jobs;
        the others are as they were. Each job stands in a batch once.
        """
        ...

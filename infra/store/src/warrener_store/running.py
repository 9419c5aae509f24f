"""Attempts that run, as far as the store knows, and when their agents were last seen.

A running job has no lease of its own that somebody renews. It is lost when two things are old: its own last
event (`lease_until`) and the last heartbeat of its agent (`last_seen_at`). So a heartbeat costs one row an
agent, and not one a job.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from warrener_store.rows import JobRow


class RunningAttemptRow(NamedTuple):
    """What a supervisor compares with the list in a heartbeat. Thousands are read at a time: no arguments."""

    job_id: UUID
    attempt: int
    owner: str
    lease_until: datetime
    cancelled: bool  # True if somebody asked to cancel the job


class RunningAttempts(Protocol):
    """Questions about what runs, kept by the engine of the StateStore
    (`tests/conformance/test_store_running.py`)."""

    async def running_owners(self) -> dict[str, datetime | None]:
        """The agents that own running jobs, and when each was last seen; None: no heartbeat of it was ever
        stored. Costs by agents, not by jobs."""
        ...

    async def running_of(self, owners: Collection[str]) -> list[RunningAttemptRow]:
        """All attempts that these agents run."""
        ...

    async def running_among(self, job_ids: Collection[UUID]) -> dict[UUID, RunningAttemptRow]:
        """Those of these jobs that run."""
        ...

    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        """Those of these jobs that run with `lease_until <= now`, claimed by moving it to `until`.

        No two callers get the same job; a caller that dies with a claim loses it at `until`.
        """
        ...

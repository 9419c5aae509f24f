"""Retention: a port of its own, kept by the same engines as the state store; its suite is
`tests/conformance/test_retention.py`.

Finding and deleting are two steps, so that what goes can be written to a file in between. Every deletion
checks its conditions again, skips rows that others hold, and changes nothing if it is repeated.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.checkpoints import CheckpointRow
from warrener_store.dead_letters import CampaignRow
from warrener_store.escalations import CaseRow
from warrener_store.parked import ParkedMessage
from warrener_store.rows import AgentRow, AttemptRow, DeadLetter, JobRow, JobTypeRow


@dataclass(frozen=True, slots=True)
class JobsBefore:
    """Which jobs of one type and one terminal state are old enough."""

    job_type: str
    state: JobState
    finished: datetime
    """They ended before this."""
    keyed: datetime
    """Those with an idempotency key were accepted before this, too."""


@dataclass(frozen=True, slots=True)
class OldJob:
    """A job that may go."""

    job_id: UUID
    source: str


@dataclass(frozen=True, slots=True)
class OldJobs:
    """A page of old jobs: those that may go, and where the next page begins; None: this was the last one."""

    jobs: tuple[OldJob, ...] = ()
    after: tuple[datetime, UUID] | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """All that the store keeps of one job."""

    job: JobRow
    attempts: tuple[AttemptRow, ...] = ()
    dead_letter: DeadLetter | None = None
    checkpoint: CheckpointRow | None = None


class RetentionKind(StrEnum):
    """What is kept besides jobs and ticks."""

    PARKED = "parked"  # messages that could not be understood
    INCIDENTS = "incidents"  # closed ones
    REDRIVES = "redrives"  # those that are over
    AGENTS = "agents"
    JOB_TYPES = "job_types"  # those without a job that is not over


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time that an incident was raised."""

    fingerprint: str
    occurrence: str
    subject: str
    raised_at: datetime

    @property
    def key(self) -> tuple[str, str]:
        """What is unique."""
        return self.fingerprint, self.occurrence


OldRow = ParkedMessage | CaseRow | CampaignRow | AgentRow | JobTypeRow


@dataclass(frozen=True, slots=True)
class OldRows:
    """A page of old rows by their keys: those that may go, and where the next page begins."""

    rows: dict[str, OldRow]
    after: tuple[datetime, str] | None = None


class Retention(Protocol):
    """Errors are those of the state store."""

    async def claim_pruning(self, holder: str, now: datetime, until: datetime) -> bool:
        """True if `holder` alone may prune until then: nobody else's claim is in force at `now`."""
        ...

    async def old_jobs(self, which: JobsBefore, after: tuple[datetime, UUID] | None, limit: int) -> OldJobs:
        """Look at `limit` jobs, the first accepted first.

        A job may go if it is old enough and nothing that lives refers to it: it has no child in the store
        (so a tree goes from its leaves up), its parent is over, no redrive has its dead letter in hand or
        waits for it, and no open incident names it.
        """
        ...

    async def job_records(self, job_ids: Collection[UUID]) -> list[JobRecord]:
        """All that is kept of these."""
        ...

    async def delete_jobs(self, which: JobsBefore, job_ids: Collection[UUID]) -> int:
        """Delete those of these that may still go, with attempts, dead letter, checkpoint and cancel mark.

        Returns how many.
        """
        ...

    async def runs_in_use(self, schedules: Collection[str]) -> set[UUID]:
        """The jobs of these schedules that a later decision asks for: the last run if the next one depends on
        it, the newest success, and where the schedule is watched, every run since that."""
        ...

    async def release_keys(self, job_ids: Collection[UUID]) -> None:
        """Take the idempotency keys from those of these jobs that are over."""
        ...

    async def old_rows(
        self, kind: RetentionKind, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> OldRows:
        """Look at `limit` rows of this kind that are older, the oldest first."""
        ...

    async def delete_rows(self, kind: RetentionKind, before: datetime, keys: Collection[str]) -> int:
        """Delete those of these that may still go; how many."""
        ...

    async def old_occurrences(self, before: datetime, limit: int) -> list[Occurrence]:
        """At most `limit` occurrences of incidents that were raised before, the oldest."""
        ...

    async def delete_occurrences(self, keys: Collection[tuple[str, str]]) -> int:
        """Delete these; how many. Until then an open incident names their jobs."""
        ...

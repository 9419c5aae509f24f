"""The port of retention. Suite: `tests/conformance/test_retention.py`.

Finding and deleting are two steps, so that rows can be exported in between. Every deletion checks its
conditions again, skips rows that other callers hold, and changes nothing if it is repeated."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol
from uuid import UUID

from warrener_store.retention.rows import JobsBefore, Occurrence, OldJobs, OldRows, RetentionKind


class Retention(Protocol):
    """Old rows of all aggregates. Errors are those of the state store."""

    async def old_jobs(self, which: JobsBefore, after: tuple[datetime, UUID] | None, limit: int) -> OldJobs:
        """Examine `limit` jobs, the first accepted first.

        A job may be deleted if it is old enough and nothing live refers to it: it has no child in the store
        (so a tree is deleted from its leaves up), its parent is over, no redrive has claimed its dead letter
        or waits for it, and no open incident names it. Left out are the jobs of schedules that a later
        decision needs: the last run if the next one depends on it, the newest success, and every run since
        that if the schedule is watched.
        """
        ...

    async def delete_jobs(self, which: JobsBefore, job_ids: Collection[UUID]) -> int:
        """Delete those of these that are still deletable, with attempts, log lines, dead letter, checkpoint
        and cancel mark.

        Returns how many.
        """
        ...

    async def old_rows(
        self, kind: RetentionKind, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> OldRows:
        """Examine `limit` older rows of this kind, the oldest first."""
        ...

    async def delete_rows(self, kind: RetentionKind, before: datetime, keys: Collection[str]) -> int:
        """Delete those of these that are still deletable; returns how many."""
        ...

    async def old_occurrences(self, before: datetime, limit: int) -> list[Occurrence]:
        """The oldest occurrences of incidents that were raised before then, at most `limit`."""
        ...

    async def delete_occurrences(self, keys: Collection[tuple[str, str]]) -> int:
        """Delete these; returns how many. Until then an open incident names their jobs."""
        ...

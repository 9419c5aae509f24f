"""Queued jobs by queue, in memory."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.queued import FIRST_ID, QueuedGroup, QueuedJob, QueuedJobs, QueueHead
from warrener_store.records.policies import decode_policy, encode_policy
from warrener_store.rows import JobRow


class MemoryQueued(QueuedJobs):
    """Reads what the store gives: the jobs that are not over."""

    def __init__(self, live: Callable[[], list[JobRow]]) -> None:
        self._live_rows = live

    async def queue_heads(self) -> list[QueueHead]:
        rows = [row for row in self._live_rows() if row.state is JobState.QUEUED]
        heads: list[QueueHead] = []
        for queue in sorted({row.queue for row in rows}):
            moments = [row.dispatched_at for row in rows if row.queue == queue]
            published = [moment for moment in moments if moment is not None]
            heads.append(QueueHead(queue, min(published, default=None), len(published) < len(moments)))
        return heads

    async def queued_groups(self, queue: str, settled: datetime, limit: int) -> list[QueuedGroup]:
        jobs: Counter[tuple[str, str]] = Counter()
        old: Counter[tuple[str, str]] = Counter()
        for at, row in islice(self._published(queue), limit):
            group = (row.job_type, encode_policy(row.policy))
            jobs[group] += 1
            old[group] += at <= settled
        return [
            QueuedGroup(group[0], decode_policy(group[1]), count, old[group])
            for group, count in sorted(jobs.items())
        ]

    async def oldest_queued(self, queue: str, until: datetime, limit: int) -> list[QueuedJob]:
        found = [QueuedJob(row.job_id, at) for at, row in self._published(queue) if at <= until]
        return found[:limit]

    async def unpublished_jobs(
        self, queue: str, until: datetime, limit: int, *, after: UUID = FIRST_ID
    ) -> list[JobRow]:
        rows = [
            row
            for row in self._live_rows()
            if row.state is JobState.QUEUED and row.queue == queue
            if row.dispatched_at is None and row.updated_at <= until and row.job_id > after
        ]
        return sorted(rows, key=lambda row: row.job_id)[:limit]

    def _published(self, queue: str) -> list[tuple[datetime, JobRow]]:
        rows = [
            (row.dispatched_at, row)
            for row in self._live_rows()
            if row.state is JobState.QUEUED and row.queue == queue and row.dispatched_at is not None
        ]
        return sorted(rows, key=lambda each: (each[0], each[1].job_id))

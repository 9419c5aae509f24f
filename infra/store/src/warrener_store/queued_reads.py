"""Queued jobs by queue, in both databases in the same words."""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_store.queued import FIRST_ID, QueuedGroup, QueuedJob, QueuedJobs, QueueHead
from warrener_store.records.codec import ColumnCodec, decode_text, encode_text
from warrener_store.records.jobs import job_from_row
from warrener_store.records.policies import decode_policy
from warrener_store.rows import JobRow


class QueuedReads(QueuedJobs):
    """A database adds how a statement is run."""

    codec: ColumnCodec

    @abstractmethod
    async def _query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    @abstractmethod
    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run the statement of this name for these rows, which are some."""

    async def queue_heads(self) -> list[QueueHead]:
        return [
            QueueHead(decode_text(queue) or "", self.codec.decode_moment(oldest), bool(unpublished))
            for queue, oldest, unpublished in await self._query("queue_heads")
        ]

    async def queued_groups(self, queue: str, settled: datetime, limit: int) -> list[QueuedGroup]:
        found = await self._query(
            "queued_groups", encode_text(queue), self.codec.encode_moment(settled), limit
        )
        return [
            QueuedGroup(decode_text(job_type) or "", decode_policy(policy), jobs, int(old))
            for job_type, policy, jobs, old in found
        ]

    async def oldest_queued(self, queue: str, until: datetime, limit: int) -> list[QueuedJob]:
        codec = self.codec
        found = await self._query("oldest_queued", encode_text(queue), codec.encode_moment(until), limit)
        return [QueuedJob(codec.decode_id(job_id), codec.decode_moment(at)) for job_id, at in found]

    async def unpublished_jobs(
        self, queue: str, until: datetime, limit: int, *, after: UUID = FIRST_ID
    ) -> list[JobRow]:
        codec = self.codec
        found = await self._query(
            "unpublished_jobs", encode_text(queue), codec.encode_moment(until), limit, codec.encode_id(after)
        )
        return [job_from_row(values, codec) for values in found]

    async def mark_unpublished(self, attempts: Sequence[tuple[UUID, int]], now: datetime) -> None:
        codec = self.codec
        await self._put_rows(
            "mark_unpublished",
            [
                (codec.encode_id(job_id), attempt, codec.encode_moment(now))
                for job_id, attempt in sorted(attempts)
            ],
        )

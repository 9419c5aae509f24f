"""Queued jobs by queue, in both databases in the same words."""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_store.queued import FIRST_ID, QueuedGroup, QueuedJob, QueuedJobs, QueueHead
from warrener_store.records.form import Form, text_in, text_out
from warrener_store.records.jobs import job_in
from warrener_store.records.policies import policy_in
from warrener_store.rows import JobRow


class QueuedReads(QueuedJobs):
    """A database adds how a statement is run."""

    form: Form

    @abstractmethod
    async def _ask(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    @abstractmethod
    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run the statement of this name for these rows, which are some."""

    async def queue_heads(self) -> list[QueueHead]:
        return [
            QueueHead(text_in(queue) or "", self.form.moment_in(oldest), bool(unpublished))
            for queue, oldest, unpublished in await self._ask("queue_heads")
        ]

    async def queued_groups(self, queue: str, settled: datetime, limit: int) -> list[QueuedGroup]:
        found = await self._ask("queued_groups", text_out(queue), self.form.moment_out(settled), limit)
        return [
            QueuedGroup(text_in(job_type) or "", policy_in(policy), jobs, int(old))
            for job_type, policy, jobs, old in found
        ]

    async def oldest_queued(self, queue: str, until: datetime, limit: int) -> list[QueuedJob]:
        form = self.form
        found = await self._ask("oldest_queued", text_out(queue), form.moment_out(until), limit)
        return [QueuedJob(form.id_in(job_id), form.moment_in(at)) for job_id, at in found]

    async def unpublished_jobs(
        self, queue: str, until: datetime, limit: int, *, after: UUID = FIRST_ID
    ) -> list[JobRow]:
        form = self.form
        found = await self._ask(
            "unpublished_jobs", text_out(queue), form.moment_out(until), limit, form.id_out(after)
        )
        return [job_in(values, form) for values in found]

    async def mark_unpublished(self, attempts: Sequence[tuple[UUID, int]], now: datetime) -> None:
        form = self.form
        await self._put_rows(
            "mark_unpublished",
            [(form.id_out(job_id), attempt, form.moment_out(now)) for job_id, attempt in sorted(attempts)],
        )

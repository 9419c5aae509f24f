"""What both databases keep beside some jobs, in the same words: cancelled trees, and checkpoints; and what
they say of those that run."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_store.checkpoints import CheckpointRow, KeptCheckpoints
from warrener_store.encoding import unescape
from warrener_store.newest import newest
from warrener_store.records.form import Form, document_in, document_out, text_in, text_out
from warrener_store.running import RunningAttempt, RunningAttempts
from warrener_store.trees import CancelledTree, CancelledTrees, Child


class Kept(CancelledTrees, KeptCheckpoints, RunningAttempts):
    """A database adds how a question is asked, how rows are put, and how it takes a batch of ids."""

    form: Form

    @abstractmethod
    async def _ask(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    @abstractmethod
    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run the statement of this name for these rows, which are some."""

    @abstractmethod
    def _ids(self, job_ids: Collection[UUID]) -> Any:
        """These ids as the parameter of a question."""

    @abstractmethod
    def _names(self, names: Collection[str]) -> Any:
        """These names as the parameter of a question."""

    async def running_owners(self) -> dict[str, datetime | None]:
        return {
            unescape(owner): self.form.moment_in(last_seen_at)
            for owner, last_seen_at in await self._ask("running_owners")
        }

    async def running_of(self, owners: Collection[str]) -> list[RunningAttempt]:
        return self._running(await self._ask("running_of", self._names(owners))) if owners else []

    async def running_among(self, job_ids: Collection[UUID]) -> dict[UUID, RunningAttempt]:
        if not job_ids:
            return {}
        found = self._running(await self._ask("running_among", self._ids(job_ids)))
        return {one.job_id: one for one in found}

    def _running(self, found: Sequence[Sequence[Any]]) -> list[RunningAttempt]:
        form = self.form
        return [
            RunningAttempt(
                form.id_in(job_id), attempt, unescape(owner), form.moment_in(lease_until), bool(cancelled)
            )
            for job_id, attempt, owner, lease_until, cancelled in found
        ]

    async def mark_cancelled(self, trees: Sequence[CancelledTree]) -> None:
        form = self.form
        rows = {tree.job_id: tree for tree in reversed(trees)}
        await self._put_rows(
            "mark_cancelled",
            [
                (form.id_out(job_id), text_out(tree.reason), form.moment_out(tree.cancelled_at))
                for job_id, tree in sorted(rows.items())
            ],
        )

    async def cancelled_among(self, job_ids: Collection[UUID]) -> dict[UUID, CancelledTree]:
        form = self.form
        found = (
            CancelledTree(
                job_id=form.id_in(job_id), reason=text_in(reason) or "", cancelled_at=form.moment_in(moment)
            )
            for job_id, reason, moment in await self._ask("cancelled_among", self._ids(job_ids))
        )
        return {tree.job_id: tree for tree in found}

    async def children_of(self, parents: Collection[UUID]) -> list[Child]:
        form = self.form
        return [
            Child(job_id=form.id_in(job_id), parent_id=form.id_in(parent_id), over=bool(over))
            for job_id, parent_id, over in await self._ask("children_of", self._ids(parents))
        ]

    async def keep_checkpoints(self, checkpoints: Sequence[CheckpointRow]) -> None:
        form = self.form
        rows = newest(checkpoints, lambda row: row.job_id, lambda row: row.number)
        await self._put_rows(
            "keep_checkpoint",
            [
                (
                    form.id_out(job_id),
                    row.attempt,
                    row.number,
                    document_out(row.state),
                    form.moment_out(row.saved_at),
                )
                for job_id, row in sorted(rows.items())
            ],
        )

    async def checkpoints_of(self, job_ids: Collection[UUID]) -> dict[UUID, CheckpointRow]:
        form = self.form
        found = (
            CheckpointRow(
                job_id=form.id_in(job_id),
                attempt=attempt,
                number=number,
                state=document_in(state),
                saved_at=form.moment_in(saved_at),
            )
            for job_id, attempt, number, state, saved_at in await self._ask(
                "checkpoints_of", self._ids(job_ids)
            )
        )
        return {row.job_id: row for row in found}

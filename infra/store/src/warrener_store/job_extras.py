"""What both databases keep beside some jobs, in the same words: cancelled trees, and checkpoints; and what
they say of those that run."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_store.checkpoints import CheckpointRow, JobCheckpoints
from warrener_store.encoding import unescape
from warrener_store.latest_by_key import latest_by_key
from warrener_store.records.codec import (
    ColumnCodec,
    decode_document,
    decode_text,
    encode_document,
    encode_text,
)
from warrener_store.running import RunningAttemptRow, RunningAttempts
from warrener_store.trees import CancelledTree, CancelledTrees, ChildJob


class SqlJobExtras(CancelledTrees, JobCheckpoints, RunningAttempts):
    """A database adds how a question is asked, how rows are put, and how it takes a batch of ids."""

    codec: ColumnCodec

    @abstractmethod
    async def _query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
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
            unescape(owner): self.codec.decode_moment(last_seen_at)
            for owner, last_seen_at in await self._query("running_owners")
        }

    async def running_of(self, owners: Collection[str]) -> list[RunningAttemptRow]:
        return self._running(await self._query("running_of", self._names(owners))) if owners else []

    async def running_among(self, job_ids: Collection[UUID]) -> dict[UUID, RunningAttemptRow]:
        if not job_ids:
            return {}
        found = self._running(await self._query("running_among", self._ids(job_ids)))
        return {one.job_id: one for one in found}

    def _running(self, found: Sequence[Sequence[Any]]) -> list[RunningAttemptRow]:
        codec = self.codec
        return [
            RunningAttemptRow(
                codec.decode_id(job_id),
                attempt,
                unescape(owner),
                codec.decode_moment(lease_until),
                bool(cancelled),
            )
            for job_id, attempt, owner, lease_until, cancelled in found
        ]

    async def mark_cancelled(self, trees: Sequence[CancelledTree]) -> None:
        codec = self.codec
        rows = {tree.job_id: tree for tree in reversed(trees)}
        await self._put_rows(
            "mark_cancelled",
            [
                (codec.encode_id(job_id), encode_text(tree.reason), codec.encode_moment(tree.cancelled_at))
                for job_id, tree in sorted(rows.items())
            ],
        )

    async def cancelled_among(self, job_ids: Collection[UUID]) -> dict[UUID, CancelledTree]:
        codec = self.codec
        found = (
            CancelledTree(
                job_id=codec.decode_id(job_id),
                reason=decode_text(reason) or "",
                cancelled_at=codec.decode_moment(moment),
            )
            for job_id, reason, moment in await self._query("cancelled_among", self._ids(job_ids))
        )
        return {tree.job_id: tree for tree in found}

    async def children_of(self, parents: Collection[UUID]) -> list[ChildJob]:
        codec = self.codec
        return [
            ChildJob(job_id=codec.decode_id(job_id), parent_id=codec.decode_id(parent_id), over=bool(over))
            for job_id, parent_id, over in await self._query("children_of", self._ids(parents))
        ]

    async def keep_checkpoints(self, checkpoints: Sequence[CheckpointRow]) -> None:
        codec = self.codec
        rows = latest_by_key(checkpoints, lambda row: row.job_id, lambda row: row.number)
        await self._put_rows(
            "keep_checkpoint",
            [
                (
                    codec.encode_id(job_id),
                    row.attempt,
                    row.number,
                    encode_document(row.state),
                    codec.encode_moment(row.saved_at),
                )
                for job_id, row in sorted(rows.items())
            ],
        )

    async def checkpoints_of(self, job_ids: Collection[UUID]) -> dict[UUID, CheckpointRow]:
        codec = self.codec
        found = (
            CheckpointRow(
                job_id=codec.decode_id(job_id),
                attempt=attempt,
                number=number,
                state=decode_document(state),
                saved_at=codec.decode_moment(saved_at),
            )
            for job_id, attempt, number, state, saved_at in await self._query(
                "checkpoints_of", self._ids(job_ids)
            )
        )
        return {row.job_id: row for row in found}

"""What the store in memory keeps beside some jobs: cancelled trees, and checkpoints."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from warrener_store.checkpoints import CheckpointRow, JobCheckpoints
from warrener_store.encoding import decode, encode
from warrener_store.rows import JobRow
from warrener_store.trees import CancelledTree, CancelledTrees, ChildJob


class MemoryJobExtras(CancelledTrees, JobCheckpoints):
    """Beside `jobs`, which belong to the store."""

    def __init__(self, jobs: Mapping[UUID, JobRow]) -> None:
        self._known_jobs = jobs
        self._trees: dict[UUID, CancelledTree] = {}
        self._checkpoints: dict[UUID, CheckpointRow] = {}

    async def mark_cancelled(self, trees: Sequence[CancelledTree]) -> None:
        for tree in trees:
            self._trees.setdefault(tree.job_id, tree)

    async def cancelled_among(self, job_ids: Collection[UUID]) -> dict[UUID, CancelledTree]:
        return {job_id: self._trees[job_id] for job_id in job_ids if job_id in self._trees}

    async def children_of(self, parents: Collection[UUID]) -> list[ChildJob]:
        return [
            ChildJob(job_id=row.job_id, parent_id=row.parent_id, over=row.state.terminal)
            for row in self._known_jobs.values()
            if row.parent_id in parents and row.parent_id is not None
        ]

    async def keep_checkpoints(self, checkpoints: Sequence[CheckpointRow]) -> None:
        for row in checkpoints:
            held = self._checkpoints.get(row.job_id)
            if held is None or row.number > held.number:
                self._checkpoints[row.job_id] = replace(row, state=decode(encode(row.state)))

    async def checkpoints_of(self, job_ids: Collection[UUID]) -> dict[UUID, CheckpointRow]:
        return {job_id: self._checkpoints[job_id] for job_id in job_ids if job_id in self._checkpoints}

"""Jobs in both databases: the questions and changes that have the same statement in each."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store.batches import latest_by_key
from warrener_store.databases.session import Rows, SqlSession
from warrener_store.encoding import unescape
from warrener_store.jobs.columns import ATTEMPTS, CANCELLED_TREES, CHECKPOINTS, CHILD_JOBS, job_from_row
from warrener_store.jobs.job_search import (
    MAX_ALIKE,
    MAX_SOURCES,
    MIN_LENGTH,
    id_part,
    ids_that_begin,
    newest_named,
)
from warrener_store.jobs.list_query import JobPosition, job_list_query, position_of
from warrener_store.jobs.port import CancelledTrees, JobCheckpoints, JobStore, QueuedJobs, RunningAttempts
from warrener_store.jobs.rows import AttemptRow, JobFilter, JobRow, StateCount
from warrener_store.jobs.views import (
    FIRST_ID,
    CancelledTree,
    CheckpointRow,
    ChildJob,
    QueuedGroup,
    QueuedJob,
    QueueHead,
    RunningAttemptRow,
)
from warrener_store.mapping import decode_policy, encode_text


class SqlJobLists(SqlSession, JobStore):
    """Jobs by id, lists, attempts and counts."""

    async def jobs_by_id(self, job_ids: Collection[UUID]) -> dict[UUID, JobRow]:
        """The jobs of these ids that exist."""
        if not job_ids:
            return {}
        rows = self._jobs(await self._query("jobs_by_id", self._ids(job_ids)))
        return {row.job_id: row for row in rows}

    async def list_jobs(self, which: JobFilter) -> list[JobRow]:
        """Jobs, the last accepted first. Raises UnknownJob if `before` is no job's id."""
        text, parameters = job_list_query(which, await self._position(which.before), self.codec)
        return self._jobs(await self._query_text(text, parameters))

    async def find_jobs(self, text: str, limit: int) -> list[JobRow]:
        """The jobs that a text names, the last accepted first."""
        sources = await self._query("derived_sources", MAX_SOURCES)
        job_ids = {job_id_of(unescape(source), text) for (source,) in sources}
        if (part := id_part(text)) is not None:
            first, last = map(self.codec.encode_id, ids_that_begin(part))
            alike = [
                *await self._query("job_ids_between", first, last, limit),
                *await self._query("job_ids_by_end", part[-MIN_LENGTH:], MAX_ALIKE),
            ]
            job_ids |= {self.codec.decode_id(job_id) for (job_id,) in alike}
        found = await self._query("jobs_by_id_or_key", self._ids(job_ids), self._names([text]))
        return newest_named(self._jobs(found), text, limit)

    async def _position(self, job_id: UUID | None) -> JobPosition | None:
        """The position of this job. It never moves, so it may be read before the list."""
        if job_id is None:
            return None
        found = await self._query("accepted_at", self.codec.encode_id(job_id))
        return position_of(job_id, self.codec.decode_moment(found[0][0]) if found else None)

    async def attempts_of(self, job_ids: Collection[UUID]) -> list[AttemptRow]:
        found = await self._query("attempts_of", self._ids(job_ids))
        return [ATTEMPTS.from_row(values, self.codec) for values in found]

    async def count_jobs(self) -> list[StateCount]:
        """The number of jobs of each type in each state."""
        return [
            StateCount(
                job_type=unescape(job_type), queue=unescape(queue), state=JobState(state), jobs=int(jobs)
            )
            for job_type, queue, state, jobs in await self._query("count_jobs")
        ]

    def _jobs(self, found: Rows) -> list[JobRow]:
        return [job_from_row(values, self.codec) for values in found]


class SqlQueuedJobs(SqlSession, QueuedJobs):
    """Queued jobs by dispatch queue."""

    async def queue_heads(self) -> list[QueueHead]:
        return [
            QueueHead(unescape(queue), self.codec.decode_moment(oldest), bool(unpublished))
            for queue, oldest, unpublished in await self._query("queue_heads")
        ]

    async def queued_groups(self, queue: str, settled: datetime, limit: int) -> list[QueuedGroup]:
        parameters = encode_text(queue), self.codec.encode_moment(settled), limit
        return [
            QueuedGroup(unescape(job_type), decode_policy(policy), jobs, int(old))
            for job_type, policy, jobs, old in await self._query("queued_groups", *parameters)
        ]

    async def oldest_queued(self, queue: str, until: datetime, limit: int) -> list[QueuedJob]:
        codec = self.codec
        found = await self._query("oldest_queued", encode_text(queue), codec.encode_moment(until), limit)
        return [QueuedJob(codec.decode_id(job_id), codec.decode_moment(at)) for job_id, at in found]

    async def unpublished_jobs(
        self, queue: str, until: datetime, limit: int, *, after: UUID = FIRST_ID
    ) -> list[JobRow]:
        codec = self.codec
        parameters = encode_text(queue), codec.encode_moment(until), limit, codec.encode_id(after)
        found = await self._query("unpublished_jobs", *parameters)
        return [job_from_row(values, codec) for values in found]

    async def mark_unpublished(self, attempts: Sequence[tuple[UUID, int]], now: datetime) -> None:
        codec = self.codec
        moment = codec.encode_moment(now)
        rows = [(codec.encode_id(job_id), attempt, moment) for job_id, attempt in sorted(attempts)]
        await self._put_rows("mark_unpublished", rows)


class SqlRunningAttempts(SqlSession, RunningAttempts):
    """Attempts that run."""

    async def running_owners(self) -> dict[str, datetime | None]:
        return {
            unescape(owner): self.codec.decode_moment(last_seen_at)
            for owner, last_seen_at in await self._query("running_owners")
        }

    async def running_attempts(
        self, *, owners: Collection[str] = (), job_ids: Collection[UUID] = ()
    ) -> dict[UUID, RunningAttemptRow]:
        # Two statements, each by its own index.
        theirs = await self._query("running_of", self._names(owners)) if owners else ()
        named = await self._query("running_among", self._ids(job_ids)) if job_ids else ()
        return {one.job_id: one for one in self._running((*theirs, *named))}

    async def lost_attempts(self, agent_id: str, limit: int) -> list[AttemptRow]:
        found = await self._query("lost_attempts", encode_text(agent_id), limit)
        return [ATTEMPTS.from_row(values, self.codec) for values in found]

    def _running(self, found: Rows) -> list[RunningAttemptRow]:
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


class SqlJobExtras(SqlSession, CancelledTrees, JobCheckpoints):
    """Rows that some jobs have beside their own: the mark of a cancelled tree, and the last checkpoint."""

    async def mark_cancelled(self, trees: Sequence[CancelledTree]) -> list[ChildJob]:
        marks = {tree.job_id: tree for tree in reversed(trees)}
        rows = [CANCELLED_TREES.to_row(tree, self.codec) for _, tree in sorted(marks.items())]
        await self._put_rows("mark_cancelled", rows)
        # A statement of its own: it sees the child jobs that were inserted while the marks were written.
        found = await self._query("children_of", self._ids(marks.keys()))
        return [CHILD_JOBS.from_row(values, self.codec) for values in found]

    async def cancelled_among(self, job_ids: Collection[UUID]) -> dict[UUID, CancelledTree]:
        found = await self._query("cancelled_among", self._ids(job_ids))
        trees = (CANCELLED_TREES.from_row(values, self.codec) for values in found)
        return {tree.job_id: tree for tree in trees}

    async def keep_checkpoints(self, checkpoints: Sequence[CheckpointRow]) -> None:
        newest = latest_by_key(checkpoints, lambda row: row.job_id, lambda row: row.number)
        rows: list[tuple[Any, ...]] = [
            CHECKPOINTS.to_row(row, self.codec) for _, row in sorted(newest.items())
        ]
        await self._put_rows("keep_checkpoint", rows)

    async def checkpoints_of(self, job_ids: Collection[UUID]) -> dict[UUID, CheckpointRow]:
        found = await self._query("checkpoints_of", self._ids(job_ids))
        rows = (CHECKPOINTS.from_row(values, self.codec) for values in found)
        return {row.job_id: row for row in rows}

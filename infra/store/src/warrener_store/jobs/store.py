"""Jobs in both databases. An operation has one statement for both, or each database's own (`postgres.py`,
`sqlite.py`).

Every change takes a batch and is conditional, so that any number of schedulers and supervisors may work at
once and a repeat changes nothing. Suites: `tests/conformance/test_store*.py`.
"""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store.batches import latest_by_key
from warrener_store.databases.session import Rows, SqlSession
from warrener_store.encoding import decode, escape, unescape
from warrener_store.jobs import columns, views
from warrener_store.jobs.columns import (
    ATTEMPTS,
    CANCELLED_TREES,
    CHECKPOINTS,
    CHILD_JOBS,
    JOB_COLUMNS,
    UNIQUE_KEYS,
    job_from_row,
)
from warrener_store.jobs.job_search import MIN_LENGTH, id_part, is_named
from warrener_store.jobs.list_query import JobPosition, job_list_query, position_of
from warrener_store.jobs.rows import (
    KEY_SCOPE,
    SCOPE_DIGITS,
    AttemptRow,
    Inserted,
    JobFilter,
    JobRow,
    Save,
    StateCount,
)
from warrener_store.jobs.rules import CANCEL_MARK
from warrener_store.jobs.unique import UniqueKeyRow
from warrener_store.mapping import RowMapper, encode_text

_STATE_COUNTS = RowMapper(StateCount)
_QUEUE_HEADS = RowMapper(views.QueueHead)
_QUEUED_GROUPS = RowMapper(views.QueuedGroup)
_QUEUED_JOBS = RowMapper(views.QueuedJob)
_MAX_SOURCES = 10_000
_MAX_ALIKE = 1_000  # ids that are compared of those with the same eight characters at the end


class JobLists(SqlSession):
    """Jobs by id, lists, attempts and counts."""

    async def jobs_by_id(self, job_ids: Collection[UUID]) -> dict[UUID, JobRow]:
        """The jobs of these ids that exist."""
        if not job_ids:
            return {}
        rows = self._jobs(await self._query("jobs_by_id", self._ids(job_ids)))
        return {row.job_id: row for row in rows}

    async def list_jobs(self, which: JobFilter) -> list[JobRow]:
        """Jobs, the last accepted first; of those accepted at one moment, the greatest id first.

        For the next page pass the id of the last job of this one as `before`: the list continues right after
        that job, whatever was accepted since. Raises UnknownJob if the store has no job by that id.
        """
        before: JobPosition | None = None
        if which.before is not None:  # it never moves, so it may be read before the list
            found = await self._query("accepted_at", self.codec.encode_id(which.before))
            before = position_of(which.before, self.codec.decode_moment(found[0][0]) if found else None)
        text, parameters = job_list_query(which, before, self.codec)
        return self._jobs(await self._query_text(text, parameters))

    async def find_jobs(self, text: str, limit: int) -> list[JobRow]:
        """The jobs that a text names, the last accepted first: by the beginning or the end of the id (eight
        characters or more), by the id that the requester chose, or by the idempotency key. Goes by indexes
        alone."""
        sources = await self._query("derived_sources", _MAX_SOURCES)
        job_ids = {job_id_of(unescape(source), text) for (source,) in sources}
        if (part := id_part(text)) is not None:
            first, last = (self.codec.encode_id(UUID(part.ljust(32, digit))) for digit in "0f")
            alike = [
                *await self._query("job_ids_between", first, last, limit),
                *await self._query("job_ids_by_end", part[-MIN_LENGTH:], _MAX_ALIKE),
            ]
            job_ids |= {self.codec.decode_id(job_id) for (job_id,) in alike}
        first, last = (f"{escape(text)}{KEY_SCOPE}{digit * SCOPE_DIGITS}" for digit in "0f")
        keyed = await self._query("job_ids_by_key", first, last, _MAX_ALIKE)
        job_ids |= {self.codec.decode_id(job_id) for (job_id,) in keyed}
        found = await self._query("jobs_by_id_or_key", self._ids(job_ids), self._names([text]))
        named = [row for row in self._jobs(found) if is_named(row, text)]
        return sorted(named, key=lambda row: (row.accepted_at, row.job_id), reverse=True)[:limit]

    async def attempts_of(self, job_ids: Collection[UUID]) -> list[AttemptRow]:
        """The attempts of these jobs that are over, by job and number."""
        return await self._rows(ATTEMPTS, "attempts_of", self._ids(job_ids))

    async def failed_attempts(self, job_ids: Collection[UUID]) -> dict[UUID, list[views.FailedAttempt]]:
        """The last ten attempts of each of these jobs that went wrong, in order; of a workflow, those of its
        current turn. Looks at the last hundred attempts of each."""
        found: dict[UUID, list[views.FailedAttempt]] = {}
        if job_ids:
            for values in await self._query("failed_attempts", self._ids(job_ids)):
                one = columns.failed_attempt(values, self.codec)
                found.setdefault(one.job_id, []).append(one)
        return found

    async def count_jobs(self) -> list[StateCount]:
        """The number of jobs of each type in each queue and state, counted as jobs change."""
        return await self._rows(_STATE_COUNTS, "count_jobs")

    async def unique_key_of(self, job_id: UUID) -> UniqueKeyRow | None:
        """The unique key that a job holds, or was the last to hold."""
        rows = await self._rows(UNIQUE_KEYS, "unique_key_of", self.codec.encode_id(job_id))
        return rows[0] if rows else None

    def _jobs(self, found: Rows) -> list[JobRow]:
        return [job_from_row(values, self.codec) for values in found]

    def _holders(self, found: Rows) -> list[tuple[UniqueKeyRow, JobRow]]:
        """The rows of `held_unique_keys`."""
        width = len(JOB_COLUMNS)
        return [
            (UNIQUE_KEYS.from_row(values[width:], self.codec), job_from_row(values, self.codec))
            for values in map(tuple, found)
        ]


class JobWriter(SqlSession):
    """Changes of jobs: each takes a batch and is conditional.

    Every change of a job (a save, a claim, a lease, a watcher) makes its version grow by one, so that a save
    that was decided on an older row is not applied.
    """

    async def insert_jobs(
        self, rows: Sequence[JobRow], *, without_keys: Collection[UUID] = ()
    ) -> list[Inserted]:
        """Insert the jobs that are new by id and by idempotency key (of their source and job type); one
        answer for each row, in order.

        Two rows of one batch may be the same job: the first is inserted. Those of `without_keys` that are
        over lose their idempotency keys first. A job with a unique key is inserted in the transaction that
        gives it the key; if the policy of its type says so, a waiting job that had it is cancelled there: it
        is due, and is never dispatched.
        """
        unique = [row for row in rows if row.policy.unique is not None]
        if not unique:
            return await self._insert_jobs(rows, without_keys)
        plain = await self._insert_jobs([row for row in rows if row.policy.unique is None], without_keys)
        answers = iter(plain), iter(await self._insert_unique(unique))
        return [next(answers[row.policy.unique is not None]) for row in rows]

    @abstractmethod
    async def _insert_jobs(self, rows: Sequence[JobRow], without_keys: Collection[UUID]) -> list[Inserted]:
        """Insert jobs without unique keys."""

    @abstractmethod
    async def _insert_unique(self, rows: Sequence[JobRow]) -> list[Inserted]:
        """Insert jobs with unique keys."""

    @abstractmethod
    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        """Apply each change whose version still holds; return the ids of the jobs that were changed.

        Job, attempt and dead letter are written together or not at all. An attempt row that exists stays as
        it is. Several saves of one job in a batch must be successive versions; they are applied together or
        not at all.
        """

    @abstractmethod
    async def succeed_jobs(
        self, successes: Sequence[views.Success], now: datetime
    ) -> dict[UUID, views.SucceededJob]:
        """End the jobs whose current attempt this is and that are queued, running, retrying or suspended, but
        not those that have begun to end otherwise (`ending`).

        The store then holds the same as after a save of the judge's decision. Returns the jobs that ended;
        the others are unchanged. Each job stands in a batch once.
        """

    @abstractmethod
    async def claim_due(
        self, states: Collection[JobState], now: datetime, until: datetime, limit: int
    ) -> list[JobRow]:
        """Claim jobs in these states with `wake_at <= now`, oldest first, by moving it to `until`.

        No two callers get the same row; the claim of a caller that dies ends at `until`.
        """

    @abstractmethod
    async def claim_deadlines(self, now: datetime, until: datetime, limit: int) -> list[JobRow]:
        """Claim jobs that are not over and have not begun to end (`ending`) with `deadline_at <= now`, the
        earliest first, in the same way.

        The claim is stored beside `wake_at`, which does not move: a deadline may pass long before a job is
        due.
        """

    @abstractmethod
    async def release_held_jobs(
        self,
        job_types: Collection[str],
        now: datetime,
        beyond: datetime,
        limit: int,
        *,
        paused: Collection[str] = (),
    ) -> int:
        """Make waiting and retrying jobs of these types that are due, and were put off until after `beyond`,
        due again now, but for those of the `paused` queues and those that are put off for more than MAX_HELD;
        at most `limit`, the first due first. Returns how many."""

    @abstractmethod
    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
        """Add reply addresses to jobs that are not over; at most 8 a job, the oldest are dropped.

        Returns the ids of those jobs. The others are over or unknown: the caller must reply to their
        watchers.
        """


class QueuedJobs(SqlSession):
    """Queued jobs by dispatch queue, in the order of their dispatch.

    `dispatched_at` of a queued job is when its dispatch was published. It is None while the broker does not
    have the dispatch, or may not have it; the job is then published again under the same attempt number. The
    supervisor compares the others with the messages in the queue (`warrener_supervisor.redispatch`).

    Every operation goes by an index of queued jobs, and reads at most `limit` of them.
    """

    async def queue_heads(self) -> list[views.QueueHead]:
        """Every queue that has queued jobs, by name."""
        return await self._rows(_QUEUE_HEADS, "queue_heads")

    async def queued_groups(self, queue: str, settled: datetime, limit: int) -> list[views.QueuedGroup]:
        """Count the published queued jobs of `queue`, the first dispatched first, at most `limit` of them;
        `settled` are those dispatched until then."""
        parameters = encode_text(queue), self.codec.encode_moment(settled), limit
        return await self._rows(_QUEUED_GROUPS, "queued_groups", *parameters)

    async def oldest_queued(self, queue: str, until: datetime, limit: int) -> list[views.QueuedJob]:
        """The published queued jobs of `queue` that were dispatched until then, the first dispatched
        first."""
        parameters = encode_text(queue), self.codec.encode_moment(until), limit
        return await self._rows(_QUEUED_JOBS, "oldest_queued", *parameters)

    async def unpublished_jobs(
        self, queue: str, until: datetime, limit: int, *, after: UUID = views.FIRST_ID
    ) -> list[JobRow]:
        """Queued jobs of `queue` whose dispatch is not published and that are unchanged since `until`, in the
        order of their ids; those with an id greater than `after`."""
        codec = self.codec
        parameters = encode_text(queue), codec.encode_moment(until), limit, codec.encode_id(after)
        found = await self._query("unpublished_jobs", *parameters)
        return [job_from_row(values, codec) for values in found]

    async def mark_unpublished(self, attempts: Sequence[tuple[UUID, int]], now: datetime) -> None:
        """Record that the broker did not take these dispatches: `dispatched_at` becomes None if the job is
        queued or retrying with this attempt."""
        codec = self.codec
        moment = codec.encode_moment(now)
        rows = [(codec.encode_id(job_id), attempt, moment) for job_id, attempt in sorted(attempts)]
        await self._put_rows("mark_unpublished", rows)


class RunningAttempts(SqlSession):
    """Attempts that run, and when their agents were last seen.

    A running job has no lease of its own that is renewed. It is lost when two things are old: its own last
    event (`lease_until`) and the last heartbeat of its agent (`last_seen_at`). So a heartbeat costs one row
    an agent, and not one a job.
    """

    @abstractmethod
    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        """Claim those of these jobs that run with `lease_until <= now` by moving it to `until`.

        No two callers get the same job; the claim of a caller that dies ends at `until`.
        """

    async def running_owners(self) -> dict[str, datetime | None]:
        """The agents that own running jobs, and when each was last seen; None: no heartbeat of it was ever
        stored. Costs by agents, not by jobs."""
        return {
            unescape(owner): self.codec.decode_moment(last_seen_at)
            for owner, last_seen_at in await self._query("running_owners")
        }

    async def running_attempts(
        self, *, owners: Collection[str] = (), job_ids: Collection[UUID] = ()
    ) -> dict[UUID, views.RunningAttemptRow]:
        """All attempts that these agents run, and the running attempts of these jobs."""
        # Two statements, each by its own index.
        theirs = await self._query("running_of", self._names(owners)) if owners else ()
        named = await self._query("running_among", self._ids(job_ids)) if job_ids else ()
        id_of, moment = self.codec.decode_id, self.codec.decode_moment
        running = [
            views.RunningAttemptRow(
                id_of(job_id), attempt, unescape(owner), moment(lease_until), bool(cancelled)
            )
            for job_id, attempt, owner, lease_until, cancelled in (*theirs, *named)
        ]
        return {one.job_id: one for one in running}

    async def lost_attempts(self, agent_id: str, limit: int) -> list[AttemptRow]:
        """The attempts that were lost with this agent, the last lost first."""
        return await self._rows(ATTEMPTS, "lost_attempts", encode_text(agent_id), limit)


class CancelledTrees(SqlSession):
    """Marks of jobs that were cancelled with all their child jobs.

    The writer of a child job reads its parent's mark afterwards, and the writer of a mark reads the children
    afterwards: whichever is first, one of the two sees the other.
    """

    async def count_cancel_marks(self, limit: int) -> dict[views.MarkOwner, int]:
        """The number of marks of each owner, of the newest `limit`: rows that cancels of unknown jobs left,
        whose one argument is the user."""
        found = await self._query("count_cancel_marks", CANCEL_MARK, limit)
        return {
            views.MarkOwner(decode(arguments).get("user"), source and unescape(source)): marks
            for source, arguments, marks in found
        }

    async def mark_cancelled(self, trees: Sequence[views.CancelledTree]) -> list[views.ChildJob]:
        """Mark these, then return the first of their child jobs (`children_of`).

        A mark that exists stays as it is; but one of an end gives way to that of a cancelled tree, which
        spares nothing. The jobs must exist.
        """
        marks = {tree.job_id: tree for tree in reversed(trees)}
        await self._put(CANCELLED_TREES, "mark_cancelled", (tree for _, tree in sorted(marks.items())))
        # A statement of its own: it sees the child jobs that were inserted while the marks were written.
        return await self.children_of(marks.keys())

    async def children_of(
        self, parents: Collection[UUID], after: UUID = views.FIRST_ID
    ) -> list[views.ChildJob]:
        """The first MAX_CHILDREN child jobs of these behind `after`, by id, but for those that undo calls."""
        parameters = self._ids(parents), self.codec.encode_id(after), views.MAX_CHILDREN
        return await self._rows(CHILD_JOBS, "children_of", *parameters)

    async def cancelled_among(self, job_ids: Collection[UUID]) -> dict[UUID, views.CancelledTree]:
        """The marks of these jobs."""
        rows = await self._rows(CANCELLED_TREES, "cancelled_among", self._ids(job_ids))
        return {row.job_id: row for row in rows}


class JobCheckpoints(SqlSession):
    """The newest checkpoint of each job."""

    async def keep_checkpoints(self, checkpoints: Sequence[views.CheckpointRow]) -> None:
        """Store these; one with a smaller or equal number does not replace the stored one."""
        newest = latest_by_key(checkpoints, lambda row: row.job_id, lambda row: row.number)
        await self._put(CHECKPOINTS, "keep_checkpoint", (row for _, row in sorted(newest.items())))

    async def checkpoints_of(self, job_ids: Collection[UUID]) -> dict[UUID, views.CheckpointRow]:
        """The newest checkpoint of each of these jobs that has one."""
        rows = await self._rows(CHECKPOINTS, "checkpoints_of", self._ids(job_ids))
        return {row.job_id: row for row in rows}


class JobStore(JobLists, JobWriter, QueuedJobs, RunningAttempts, CancelledTrees, JobCheckpoints):
    """All that is stored about jobs."""

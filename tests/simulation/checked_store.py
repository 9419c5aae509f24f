"""The store in memory, with an eye on what may never happen to a row."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from datetime import datetime
from uuid import UUID

from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_runtime.clock import Clock
from warrener_store.jobs.columns import JOB_COLUMNS, job_from_row
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow, Save
from warrener_store.mapping import SQLITE_CODEC
from warrener_store.memory import MemoryStore

_JOBS = f"SELECT {', '.join(JOB_COLUMNS)} FROM warrener_jobs"
_OVER = ", ".join(f"'{state.value}'" for state in sorted(TERMINAL))
_LIVE = f"SELECT sum(jobs) FROM warrener_job_counts WHERE state NOT IN ({_OVER})"


class StoredJobs(Mapping[UUID, JobRow]):
    """The jobs of a store as they are now."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getitem__(self, job_id: UUID) -> JobRow:
        found = self._connection.execute(f"{_JOBS} WHERE job_id = ?", [str(job_id)]).fetchone()
        if found is None:
            raise KeyError(job_id)
        return job_from_row(found, SQLITE_CODEC)

    def __iter__(self) -> Iterator[UUID]:
        return (UUID(job_id) for (job_id,) in self._connection.execute("SELECT job_id FROM warrener_jobs"))

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM warrener_jobs").fetchone()[0])

    def values(self) -> ValuesView[JobRow]:
        rows = (job_from_row(values, SQLITE_CODEC) for values in self._connection.execute(_JOBS))
        return {row.job_id: row for row in rows}.values()


class WatchedStore(MemoryStore):
    """Shows its jobs to a simulation."""

    _live = 0
    _live_counted_at = -1

    @property
    def jobs(self) -> Mapping[UUID, JobRow]:
        return StoredJobs(self.connection)

    @property
    def total_changes(self) -> int:
        return self.connection.total_changes

    @property
    def live(self) -> int:
        """The number of jobs that are not over, counted once a change: each step of a simulation asks."""
        if self._live_counted_at != self.total_changes:
            self._live_counted_at = self.total_changes
            self._live = self.connection.execute(_LIVE).fetchone()[0] or 0
        return self._live


class CheckedStore(WatchedStore):
    """Checks every applied save (invariants I1, I6, I7, I8)."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.history: dict[UUID, list[tuple[JobState, int]]] = {}
        self.ended: dict[UUID, dict[int, AttemptOutcome]] = {}

    async def time(self) -> datetime:
        """The true time."""
        return self._clock.now()

    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        before = await self.jobs_by_id({save.row.job_id for save in saves})
        applied = await super().save_jobs(saves)
        for save in saves:
            if save.row.job_id in applied:
                self._check(before[save.row.job_id], save.row)
                self._note(save.row, save.attempt)
                before[save.row.job_id] = save.row
        return applied

    def _check(self, before: JobRow, after: JobRow) -> None:
        assert not before.state.terminal, f"I7: {before.job_id} left {before.state}"
        assert after.attempt - before.attempt in (0, 1), f"I8: {before.attempt} to {after.attempt}"
        assert after.failures <= after.policy.max_attempts, f"I6: {after.failures} failures"
        assert after.losses <= after.policy.max_lost_attempts + 1, f"I6: {after.losses} losses"

    def _note(self, row: JobRow, attempt: AttemptRow | None) -> None:
        self.history.setdefault(row.job_id, []).append((row.state, row.attempt))
        if attempt is not None:
            ended = self.ended.setdefault(row.job_id, {})
            assert attempt.attempt not in ended, f"attempt {attempt.attempt} of {row.job_id} ended twice"
            ended[attempt.attempt] = attempt.outcome

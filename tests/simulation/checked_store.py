"""The store in memory, with an eye on what may never happen to a row."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_runtime.clock import Clock
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow, Save
from warrener_store.memory import MemoryStore


class CheckedStore(MemoryStore):
    """Checks every applied save (invariants I1, I6, I7, I8)."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.history: dict[UUID, list[tuple[JobState, int]]] = {}
        self.ended: dict[UUID, dict[int, AttemptOutcome]] = {}

    async def time(self) -> datetime:
        """The true time."""
        return self._clock.now()

    @property
    def jobs(self) -> Mapping[UUID, JobRow]:
        """All jobs as they are now."""
        return self._jobs

    @property
    def live(self) -> int:
        """The number of jobs that are not over."""
        return len(self._live)

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

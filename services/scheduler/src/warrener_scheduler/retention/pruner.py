"""prune: what is old is deleted, in batches with pauses. One scheduler at a time; a claim says which."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.retention.export import JsonLinesExporter
from warrener_scheduler.retention.policy import RetentionPolicy, unused_types
from warrener_scheduler.retention.settings import RetentionSettings
from warrener_scheduler.schedules.tick_messages import schedule_source
from warrener_scheduler.schedules.tick_pruner import TickPruner
from warrener_store.retention.rows import JobsBefore, OldJob, OldRows, RetentionKind
from warrener_store.schedules.rows import TickRow
from warrener_store.store import Store

_log = get_logger("prune")

CLAIM = timedelta(seconds=15)
_MAX_BATCHES = 2000  # of each kind in one pass; the rest is left to the next one
_SCHEDULE = schedule_source("")


class ClaimLost(Exception):
    """Another scheduler prunes now: this one was silent for too long."""


class PruneBatch(NamedTuple):
    """A batch: what it was about, how old, and how many rows went (or would go)."""

    what: str
    before: str
    rows: int


class Pruner:
    """The verb that deletes. Any number of schedulers may run it."""

    def __init__(
        self, store: Store, clock: Clock, settings: RetentionSettings, *, holder: str, tick_pruner: TickPruner
    ) -> None:
        self._store, self._clock, self._tick_pruner = store, clock, tick_pruner
        self._policy = RetentionPolicy.of(settings)
        self._interval = settings.scheduler_prune_interval
        self._limit, self._pause = settings.scheduler_prune_batch_limit, settings.scheduler_prune_pause
        folder = settings.scheduler_export_folder
        self._export = None if folder is None else JsonLinesExporter(folder)
        self._holder = holder
        self._renew_at = 0.0

    async def run_once(self) -> None:
        """One pass, if no other scheduler has made one within the interval."""
        began = self._clock.now()
        if not await self.claim(CLAIM):
            return
        deleted: Counter[str] = Counter()
        try:
            async for step in self.steps():
                deleted[step.what] += step.rows
        except ClaimLost:
            _log.warning("Pruning stopped: another scheduler claimed it.", action="prune.claim_lost")
        else:
            await self.claim(max(began + (self._interval or CLAIM) - self._clock.now(), timedelta(0)))
        if rows := {what: count for what, count in deleted.items() if count}:
            _log.info("Old rows were deleted.", action="prune.deleted", **rows)

    async def claim(self, span: timedelta) -> bool:
        """True if this one alone prunes for so long."""
        now = self._clock.now()
        self._renew_at = self._clock.monotonic() + span.total_seconds() / 2
        return await self._store.retention.claim_pruning(self._holder, now, now + span)

    async def release(self) -> None:
        """Give the claim back."""
        await self.claim(timedelta(0))

    async def steps(self, *, dry_run: bool = False) -> AsyncGenerator[PruneBatch]:
        """One pass, batch by batch; nothing is deleted in a dry run. Raises ClaimLost."""
        for which in self._policy.jobs_before(await self._store.count_jobs(), self._clock.now()):
            async for step in self._jobs(which, dry_run=dry_run):
                yield step
        if not dry_run:
            async for step in self._occurrences():
                yield step
        for kind in RetentionKind:
            async for step in self._rows(kind, dry_run=dry_run):
                yield step
        if not dry_run:
            async for step in self._ticks():
                yield step

    async def _jobs(self, which: JobsBefore, *, dry_run: bool) -> AsyncGenerator[PruneBatch]:
        what, before = f"jobs.{which.state.value}.{which.job_type}", which.finished.isoformat()
        after = None
        for _ in range(_MAX_BATCHES):
            page = await self._store.retention.old_jobs(which, after, self._limit)
            ids = await self._without_jobs_in_use(page.jobs)
            yield PruneBatch(what, before, len(ids) if dry_run else await self._delete_jobs(which, ids))
            after = page.after
            if after is None:
                return
            await self._pause_between_batches(dry_run=dry_run)

    async def _without_jobs_in_use(self, jobs: Sequence[OldJob]) -> list[UUID]:
        """Without those that a schedule looks back at."""
        names = {job.source.removeprefix(_SCHEDULE) for job in jobs if job.source.startswith(_SCHEDULE)}
        used = await self._store.retention.runs_in_use(names) if names else set[UUID]()
        return [job.job_id for job in jobs if job.job_id not in used]

    async def _delete_jobs(self, which: JobsBefore, ids: Sequence[UUID]) -> int:
        if not ids:
            return 0
        if self._export is not None:
            await self._write("jobs", await self._store.retention.job_records(ids))
        return await self._store.retention.delete_jobs(which, ids)

    async def _occurrences(self) -> AsyncGenerator[PruneBatch]:
        before = self._policy.rows_before(RetentionKind.INCIDENTS, self._clock.now())
        for _ in range(_MAX_BATCHES if before is not None else 0):
            assert before is not None
            found = await self._store.retention.old_occurrences(before, self._limit)
            if found and self._export is not None:
                await self._write("occurrences", found)
            gone = await self._store.retention.delete_occurrences([one.key for one in found])
            yield PruneBatch("occurrences", before.isoformat(), gone)
            if len(found) < self._limit:
                return
            await self._pause_between_batches()

    async def _rows(self, kind: RetentionKind, *, dry_run: bool) -> AsyncGenerator[PruneBatch]:
        before, after = self._policy.rows_before(kind, self._clock.now()), None
        for _ in range(_MAX_BATCHES if before is not None else 0):
            assert before is not None
            page = await self._store.retention.old_rows(kind, before, after, self._limit)
            if kind is RetentionKind.JOB_TYPES:
                page = await self._unused_types(page, before)
            gone = len(page.rows)
            if page.rows and not dry_run:
                if self._export is not None:
                    await self._write(kind.value, [*page.rows.values()])
                gone = await self._store.retention.delete_rows(kind, before, page.rows.keys())
            yield PruneBatch(kind.value, before.isoformat(), gone)
            after = page.after
            if after is None:
                return
            await self._pause_between_batches(dry_run=dry_run)

    async def _unused_types(self, page: OldRows, before: datetime) -> OldRows:
        if not page.rows:
            return page
        schedules, agents = await self._store.schedules(), await self._store.agents(before)
        unused = unused_types(page.rows, schedules.values(), agents, before)
        return OldRows({key: row for key, row in page.rows.items() if key in unused}, page.after)

    async def _ticks(self) -> AsyncGenerator[PruneBatch]:
        export = None if self._export is None else self._write_ticks
        for _ in range(_MAX_BATCHES):
            yield PruneBatch(
                "ticks", self._tick_pruner.before.isoformat(), await self._tick_pruner.run_once(export)
            )
            if self._tick_pruner.complete:
                return
            await self._pause_between_batches()

    async def _write_ticks(self, ticks: Sequence[TickRow]) -> None:
        await self._write("ticks", ticks)

    async def _write(self, kind: str, rows: Sequence[Any]) -> None:
        assert self._export is not None
        await self._export.write(kind, rows, self._clock.now())

    async def _pause_between_batches(self, *, dry_run: bool = False) -> None:
        """Let the hot path have the database, and keep the claim."""
        if dry_run:
            return
        await self._clock.sleep(self._pause)
        if self._clock.monotonic() >= self._renew_at and not await self.claim(CLAIM):
            raise ClaimLost

"""Delete old rows, in batches with pauses.

One scheduler prunes at a time; a claim in the store says which one. Deleted rows are first written to JSON
Lines files if an export folder is set: a file a day and kind.
"""

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from pydantic_core import to_json

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.retention.policy import RetentionPolicy, unused_types
from warrener_scheduler.settings import RetentionSettings, SchedulerSettings
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.jobs.views import CheckpointRow
from warrener_store.retention.rows import JobsBefore, OldRows, RetentionKind
from warrener_store.schedules.rows import TickRow
from warrener_store.schedules.store import TickRetention
from warrener_store.store import Store

_log = get_logger("prune")

CLAIM = timedelta(seconds=15)
_DUTY = "pruning"  # of the one that prunes now or made the last pass, until the next one is due
_LIMIT = 500  # rows that one statement looks at
_PAUSE = 0.1  # seconds between two statements
_MAX_BATCHES = 2000  # of each kind in one pass; the rest is left to the next one
Export = Callable[[Sequence[TickRow]], Awaitable[None]]
_TICK_LIMIT = 50  # of each schedule in one transaction
_MAX_TICK_BATCHES = 100  # in one run; the rest is left to the next one


class TickPruner:
    """Deletes old ticks, schedule by schedule in the order of names; begins again behind the last one."""

    def __init__(self, tick_history: TickRetention, clock: Clock, *, keep: timedelta, newest: int) -> None:
        self._tick_history, self._clock = tick_history, clock
        self._keep, self._newest = keep, newest
        self._after = ""
        self.complete = False
        """True if the last run has reached the end of the tick history."""

    async def run_once(self, export: Export | None = None) -> int:
        """Delete old ticks of the next few schedules, after `export` has written them; how many."""
        begun, before, deleted = self._after, self._clock.now() - self._keep, 0
        for _ in range(_MAX_TICK_BATCHES):
            page = await self._tick_history.old_ticks(begun, before, self._newest, _TICK_LIMIT)
            if page.ticks and export is not None:
                await export(page.ticks)
            deleted += await self._tick_history.delete_ticks([tick.key for tick in page.ticks])
            self._after, self.complete = page.after or "", page.after is None
            if page.after != begun:  # none of these schedules has more
                break
        if deleted:
            _log.info("Old ticks were deleted.", action="ticks.pruned", ticks=deleted)
        return deleted


class ClaimLost(Exception):
    """Another scheduler prunes now: this one was silent for too long."""


class PruneBatch(NamedTuple):
    """One batch: the kind of its rows, and how many were deleted."""

    what: str
    rows: int


class Pruner:
    """Deletes what the policy calls old. Any number of schedulers may run one."""

    def __init__(
        self, store: Store, clock: Clock, settings: RetentionSettings, *, holder: str, tick_pruner: TickPruner
    ) -> None:
        self._store, self._clock, self._tick_pruner = store, clock, tick_pruner
        self._policy = RetentionPolicy.of(settings)
        self._interval = settings.scheduler_prune_interval
        folder = settings.scheduler_export_folder
        self._export = None if folder is None else JsonLinesExporter(folder)
        self._holder = holder
        self._renew_at = 0.0

    async def run_once(self) -> None:
        """Make one pass, if no other scheduler has made one within the interval."""
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
        """Claim pruning for `span`. True if this scheduler alone prunes for so long."""
        now = self._clock.now()
        self._renew_at = self._clock.monotonic() + span.total_seconds() / 2
        return await self._store.claim_duty(_DUTY, self._holder, now, now + span)

    async def steps(self) -> AsyncGenerator[PruneBatch]:
        """Make one pass, batch by batch. Raises ClaimLost."""
        for which in self._policy.jobs_before(await self._store.count_jobs(), self._clock.now()):
            async for step in self._jobs(which):
                yield step
        async for step in self._occurrences():
            yield step
        for kind in RetentionKind:
            async for step in self._rows(kind):
                yield step
        async for step in self._ticks():
            yield step

    async def _jobs(self, which: JobsBefore) -> AsyncGenerator[PruneBatch]:
        what, after = f"jobs.{which.state.value}.{which.job_type}", None
        for _ in range(_MAX_BATCHES):
            page = await self._store.retention.old_jobs(which, after, _LIMIT)
            yield PruneBatch(what, await self._delete_jobs(which, page.job_ids))
            after = page.after
            if after is None:
                return
            await self._pause_between_batches()

    async def _delete_jobs(self, which: JobsBefore, ids: Sequence[UUID]) -> int:
        if not ids:
            return 0
        if self._export is not None:  # else the records are not needed
            await self._write("jobs", await _job_records(self._store, ids))
        return await self._store.retention.delete_jobs(which, ids)

    async def _occurrences(self) -> AsyncGenerator[PruneBatch]:
        before = self._policy.rows_before(RetentionKind.INCIDENTS, self._clock.now())
        for _ in range(_MAX_BATCHES if before is not None else 0):
            assert before is not None
            found = await self._store.retention.old_occurrences(before, _LIMIT)
            await self._write("occurrences", found)
            gone = await self._store.retention.delete_occurrences([one.key for one in found])
            yield PruneBatch("occurrences", gone)
            if len(found) < _LIMIT:
                return
            await self._pause_between_batches()

    async def _rows(self, kind: RetentionKind) -> AsyncGenerator[PruneBatch]:
        before, after = self._policy.rows_before(kind, self._clock.now()), None
        for _ in range(_MAX_BATCHES if before is not None else 0):
            assert before is not None
            page = await self._store.retention.old_rows(kind, before, after, _LIMIT)
            if kind is RetentionKind.JOB_TYPES:
                page = await self._unused_types(page, before)
            gone = 0
            if page.rows:
                await self._write(kind.value, [*page.rows.values()])
                gone = await self._store.retention.delete_rows(kind, before, page.rows.keys())
            yield PruneBatch(kind.value, gone)
            after = page.after
            if after is None:
                return
            await self._pause_between_batches()

    async def _unused_types(self, page: OldRows, before: datetime) -> OldRows:
        if not page.rows:
            return page
        schedules, agents = await self._store.schedules(), await self._store.agents(before)
        unused = unused_types(page.rows, schedules.values(), agents, before)
        return OldRows({key: row for key, row in page.rows.items() if key in unused}, page.after)

    async def _ticks(self) -> AsyncGenerator[PruneBatch]:
        for _ in range(_MAX_BATCHES):
            yield PruneBatch("ticks", await self._tick_pruner.run_once(partial(self._write, "ticks")))
            if self._tick_pruner.complete:
                return
            await self._pause_between_batches()

    async def _write(self, kind: str, rows: Sequence[Any]) -> None:
        """Write rows to the export folder, if there is one."""
        if rows and self._export is not None:
            await self._export.write(kind, rows, self._clock.now())

    async def _pause_between_batches(self) -> None:
        """Leave the database to the hot path for a while, and renew the claim."""
        await self._clock.sleep(_PAUSE)
        if self._clock.monotonic() >= self._renew_at and not await self.claim(CLAIM):
            raise ClaimLost


@dataclass(frozen=True, slots=True)
class JobRecord:
    """All rows of one job."""

    job: JobRow
    attempts: tuple[AttemptRow, ...]
    dead_letter: DeadLetter | None
    checkpoint: CheckpointRow | None


async def _job_records(store: Store, job_ids: Sequence[UUID]) -> list[JobRecord]:
    """Read all rows of these jobs."""
    jobs, checkpoints = await store.jobs_by_id(job_ids), await store.checkpoints_of(job_ids)
    attempts: defaultdict[UUID, list[AttemptRow]] = defaultdict(list)
    for attempt in await store.attempts_of(job_ids):
        attempts[attempt.job_id].append(attempt)
    which = DeadLetterFilter(states=(), job_ids=tuple(job_ids), limit=len(job_ids))
    found = await store.dead_letter_store.list_dead_letters(which)
    dead_letters = {dead_letter.job_id: dead_letter for dead_letter in found}
    return [
        JobRecord(job, tuple(attempts[job_id]), dead_letters.get(job_id), checkpoints.get(job_id))
        for job_id, job in jobs.items()
    ]


class JsonLinesExporter:
    """Appends to `<kind>-<day>.jsonl` in a folder. A row may stand there twice; none is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def write(self, kind: str, rows: Sequence[Any], now: datetime) -> None:
        """Return when the rows are on the disk. Raises OSError; then the rows must not be deleted."""
        path = self._folder / f"{kind}-{now:%Y-%m-%d}.jsonl"
        await asyncio.to_thread(_append, path, b"".join(_line(row) for row in rows))


def _line(row: Any) -> bytes:
    return to_json(row, bytes_mode="base64", inf_nan_mode="constants", serialize_unknown=True) + b"\n"


def _append(path: Path, lines: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("ab") as file:
        if _is_torn(path):  # its writer was killed; the row is written again as a whole
            file.write(b"\n")
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    if new:
        _sync_folder(path.parent)


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def build_pruner(store: Store, clock: Clock, settings: SchedulerSettings, holder: str) -> Pruner:
    """Build the pruner of jobs, rows and ticks from the settings. `holder` names it in its claim."""
    keep = settings.scheduler_tick_retention
    ticks = TickPruner(store, clock, keep=keep, newest=settings.scheduler_ticks_keep_newest)
    return Pruner(store, clock, settings, holder=holder, tick_pruner=ticks)

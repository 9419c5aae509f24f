"""Delete old rows, in batches with pauses.

One scheduler prunes at a time; a claim in the store says which one. Deleted rows are first written to JSON
Lines files if an export folder is set: a file a day and kind.
"""

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from pydantic_core import to_json

from warrener_contracts.state_machine import JobState
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.settings import RetentionSettings
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter
from warrener_store.jobs.rows import AttemptRow, JobRow, StateCount
from warrener_store.jobs.rules import CANCEL_MARK
from warrener_store.jobs.views import CheckpointRow
from warrener_store.retention.rows import JobsBefore, OldRow, OldRows, RetentionKind
from warrener_store.schedules.rows import ScheduleRow, TickRow
from warrener_store.schedules.store import TickRetention
from warrener_store.store import Store
from warrener_store.workflows.rows import TurnRow

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


def jobs_before(settings: RetentionSettings, counts: Iterable[StateCount], now: datetime) -> list[JobsBefore]:
    """Return which jobs are old, for each type and terminal state that has jobs."""
    of_all = {
        JobState.SUCCEEDED: settings.scheduler_succeeded_retention,
        JobState.CANCELLED: settings.scheduler_cancelled_retention,
        JobState.DEAD: settings.scheduler_dead_retention,
        JobState.EXPIRED: settings.scheduler_expired_retention,
    }
    keyed = now - (settings.scheduler_idempotency_window or timedelta(0))
    found: list[JobsBefore] = []
    # A type may have jobs in several queues.
    for job_type, state in dict.fromkeys((one.job_type, one.state) for one in counts if one.state.terminal):
        usual = settings.scheduler_cancel_mark_retention if job_type == CANCEL_MARK else of_all[state]
        keep = settings.scheduler_retention_by_job_type.get(job_type, {}).get(state, usual)
        if keep is not None:
            found.append(JobsBefore(job_type, state, now - keep, keyed))
    return found


def rows_before(settings: RetentionSettings, kind: RetentionKind, now: datetime) -> datetime | None:
    """Return the age limit of this kind of row; None if its rows always stay."""
    keep = {
        RetentionKind.PARKED: settings.scheduler_parked_retention,
        RetentionKind.INCIDENTS: settings.scheduler_incident_retention,
        RetentionKind.ESCALATION_POLICIES: settings.scheduler_incident_retention,
        RetentionKind.REDRIVES: settings.scheduler_redrive_retention,
        RetentionKind.AGENTS: settings.scheduler_agent_retention,
        RetentionKind.JOB_TYPES: settings.scheduler_job_type_retention,
        RetentionKind.AUDIT_RECORDS: settings.scheduler_audit_retention,
    }[kind]
    return None if keep is None else now - keep


def unused_types(
    old: Mapping[str, OldRow], schedules: Iterable[ScheduleRow], agents: Iterable[AgentRow], before: datetime
) -> set[str]:
    """Return the keys of job types that no schedule names and whose queue no agent has served since `before`.

    The age of the announcement is not enough: an agent announces its types when it starts, and may run for
    months.
    """
    named = {row.definition.job_type for row in schedules}
    served = {queue for agent in agents if agent.last_seen_at >= before for queue in agent.queues}
    return {
        key
        for key, row in old.items()
        if isinstance(row, JobTypeRow) and row.name not in named and row.queue not in served
    }


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
        self._settings, self._folder = settings, settings.scheduler_export_folder
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
            await self.claim(
                max(
                    began + (self._settings.scheduler_prune_interval or CLAIM) - self._clock.now(),
                    timedelta(0),
                )
            )
        if rows := {what: count for what, count in deleted.items() if count}:
            _log.info("Old rows were deleted.", action="prune.deleted", **rows)

    async def claim(self, span: timedelta) -> bool:
        """Claim pruning for `span`. True if this scheduler alone prunes for so long."""
        now = self._clock.now()
        self._renew_at = self._clock.monotonic() + span.total_seconds() / 2
        return await self._store.claim_duty(_DUTY, self._holder, now, now + span)

    async def steps(self) -> AsyncGenerator[PruneBatch]:
        """Make one pass, batch by batch. Raises ClaimLost."""
        for which in jobs_before(self._settings, await self._store.count_jobs(), self._clock.now()):
            async for step in self._jobs(which):
                yield step
        async for step in self._occurrences():
            yield step
        for kind in RetentionKind:
            async for step in self._rows(kind):
                yield step
        async for step in self._ticks():
            yield step
        async for step in self._signals():
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
        if self._folder is not None:  # else the records are not needed
            await self._write("jobs", await _job_records(self._store, ids))
        return await self._store.retention.delete_jobs(which, ids)

    async def _occurrences(self) -> AsyncGenerator[PruneBatch]:
        before = rows_before(self._settings, RetentionKind.INCIDENTS, self._clock.now())
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
        before, after = rows_before(self._settings, kind, self._clock.now()), None
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

    async def _signals(self) -> AsyncGenerator[PruneBatch]:
        """Signals that no job can receive: parked messages are alike, and stay as long."""
        before = rows_before(self._settings, RetentionKind.PARKED, self._clock.now())
        for _ in range(_MAX_BATCHES if before is not None else 0):
            assert before is not None
            gone = await self._store.drop_signals(before, _LIMIT)
            yield PruneBatch("signals", gone)
            if gone < _LIMIT:
                return
            await self._pause_between_batches()

    async def _write(self, kind: str, rows: Sequence[Any]) -> None:
        """Append rows to `<kind>-<day>.jsonl` in the export folder, if there is one. A row may stand there
        twice; none is missing. Raises OSError unless they are on the disk: then they must not be deleted."""
        if rows and self._folder is not None:
            path = self._folder / f"{kind}-{self._clock.now():%Y-%m-%d}.jsonl"
            await asyncio.to_thread(_append, path, b"".join(map(_line, rows)))

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
    turns: tuple[TurnRow, ...]


async def _job_records(store: Store, job_ids: Sequence[UUID]) -> list[JobRecord]:
    """Read all rows of these jobs."""
    jobs, checkpoints = await store.jobs_by_id(job_ids), await store.checkpoints_of(job_ids)
    turns = await store.turns_of(job_ids)
    attempts: defaultdict[UUID, list[AttemptRow]] = defaultdict(list)
    for attempt in await store.attempts_of(job_ids):
        attempts[attempt.job_id].append(attempt)
    which = DeadLetterFilter(states=(), job_ids=tuple(job_ids), limit=len(job_ids))
    found = await store.dead_letter_store.list_dead_letters(which)
    dead_letters = {dead_letter.job_id: dead_letter for dead_letter in found}
    return [
        JobRecord(
            job,
            tuple(attempts[job_id]),
            dead_letters.get(job_id),
            checkpoints.get(job_id),
            tuple(turns.get(job_id, ())),
        )
        for job_id, job in jobs.items()
    ]


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

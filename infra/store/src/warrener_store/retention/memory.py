"""Retention in memory: the plainest statement of the conditions. Nothing here awaits anything."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from warrener_contracts.identity import schedule_from_source
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.audit.rows import AuditRecord
from warrener_store.dead_letters.memory import MemoryDeadLetters
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterState
from warrener_store.incidents.memory import MemoryEscalations
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.jobs.views import CancelledTree, CheckpointRow
from warrener_store.logs.rows import LogChunk, LogPosition
from warrener_store.parked.rows import ParkedMessage
from warrener_store.retention.port import Retention
from warrener_store.retention.rows import (
    JobsBefore,
    Occurrence,
    OldJobs,
    OldRow,
    OldRows,
    RetentionKind,
)
from warrener_store.schedules.memory_indexes import MemoryTicks
from warrener_store.schedules.rows import MAX_RUNS_EXAMINED, ScheduleRow, WatchRow

_IN_HAND = (DeadLetterState.CLAIMED, DeadLetterState.REDRIVEN)
R = TypeVar("R")
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryRetention(Retention):
    """A part of MemoryStore: it reads and deletes all its rows."""

    _jobs: dict[UUID, JobRow]
    _ended: list[tuple[datetime, UUID]]
    _by_key: dict[str, UUID]
    _attempts: dict[tuple[UUID, int], AttemptRow]
    _dead_letters: dict[UUID, DeadLetter]
    _checkpoints: dict[UUID, CheckpointRow]
    _trees: dict[UUID, CancelledTree]
    _logs: dict[UUID, dict[LogPosition, LogChunk]]
    _agents: dict[str, AgentRow]
    _job_types: dict[str, JobTypeRow]
    _parked: dict[str, ParkedMessage]
    _audit: dict[UUID, AuditRecord]
    _schedules: dict[str, ScheduleRow]
    _watches: dict[str, WatchRow]
    _ticks: MemoryTicks
    _escalations: MemoryEscalations
    _dead_letter_store: MemoryDeadLetters

    @abstractmethod
    def _live_jobs(self) -> list[JobRow]:
        """The jobs that are not over."""

    async def old_jobs(self, which: JobsBefore, after: tuple[datetime, UUID] | None, limit: int) -> OldJobs:
        page = sorted(
            (row.accepted_at, row.job_id)
            for row in self._jobs.values()
            if (row.job_type, row.state) == (which.job_type, which.state)
            and row.accepted_at < which.finished
            and (after is None or (row.accepted_at, row.job_id) > after)
        )[:limit]
        rows = [self._jobs[job_id] for _, job_id in page]
        free = self._prunable(rows, which)
        sources = {schedule_from_source(row.source) for row in free}
        in_use = {job_id for name in self._schedules.keys() & sources for job_id in self._in_use(name)}
        ids = tuple(row.job_id for row in free if row.job_id not in in_use)
        return OldJobs(ids, page[-1] if len(page) == limit else None)

    def _prunable(self, rows: Iterable[JobRow], which: JobsBefore) -> list[JobRow]:
        old = [row for row in rows if _is_old(row, which)]
        if not old:
            return []
        parents = {row.parent_id for row in self._jobs.values()}
        live = {row.job_id for row in self._live_jobs()}
        dead_letters = self._dead_letters.values()
        awaited = {
            dead_letter.redriven_as
            for dead_letter in dead_letters
            if dead_letter.state is DeadLetterState.REDRIVEN
        }
        return [
            row
            for row in old
            if row.job_id not in parents
            and row.parent_id not in live
            and row.job_id not in awaited
            and not self._is_held(self._dead_letters.get(row.job_id))
        ]

    def _is_held(self, dead_letter: DeadLetter | None) -> bool:
        return dead_letter is not None and (
            dead_letter.state in _IN_HAND
            or self._escalations.names(dead_letter.fingerprint, str(dead_letter.job_id))
        )

    async def delete_jobs(self, which: JobsBefore, job_ids: Collection[UUID]) -> int:
        there = [self._jobs[job_id] for job_id in job_ids if job_id in self._jobs]
        gone = {row.job_id for row in self._prunable(there, which)}
        for job_id in gone:
            row = self._jobs.pop(job_id)
            if row.idempotency_key is not None:
                self._by_key.pop(row.idempotency_key, None)
            for beside in (self._dead_letters, self._checkpoints, self._trees, self._logs):
                beside.pop(job_id, None)
        if gone:
            self._ended = [end for end in self._ended if end[1] not in gone]
            for place in [place for place in self._attempts if place[0] in gone]:
                del self._attempts[place]
        return len(gone)

    def _in_use(self, name: str) -> list[UUID]:
        ticks = [tick for tick in self._ticks.of(name) if tick.job_id is not None][:MAX_RUNS_EXAMINED]
        runs = [tick.job_id for tick in ticks if tick.job_id is not None]
        watch, last = self._watches.get(name), self._schedules[name].last_job_id
        succeeded = (
            job_id
            for job_id in runs
            if job_id in self._jobs and self._jobs[job_id].state is JobState.SUCCEEDED
        )
        found = [*([last] if last else ()), *[job_id for job_id in (next(succeeded, None),) if job_id]]
        if watch is not None:
            since = watch.last_success_tick or _BEGIN
            found += [tick.job_id for tick in ticks if tick.job_id is not None and tick.nominal_at >= since]
        return found

    async def old_rows(
        self, kind: RetentionKind, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> OldRows:
        page = sorted(
            place for place in self._places(kind) if place[0] < before and (after is None or place > after)
        )[:limit]
        free = {key: row for key, row in self._free(kind, before).items() if key in {key for _, key in page}}
        return OldRows(free, page[-1] if len(page) == limit else None)

    async def delete_rows(self, kind: RetentionKind, before: datetime, keys: Collection[str]) -> int:
        gone = self._free(kind, before).keys() & set(keys)
        match kind:
            case RetentionKind.PARKED:
                self._parked = _without(self._parked, gone)
            case RetentionKind.INCIDENTS:
                self._escalations.drop(gone)
            case RetentionKind.ESCALATION_POLICIES:
                self._escalations.drop_policies(gone)
            case RetentionKind.REDRIVES:
                self._dead_letter_store.drop({UUID(key) for key in gone})
            case RetentionKind.AGENTS:
                self._agents = _without(self._agents, gone)
            case RetentionKind.JOB_TYPES:
                self._job_types = _without(self._job_types, gone)
            case RetentionKind.AUDIT_RECORDS:
                self._audit = {key: row for key, row in self._audit.items() if str(key) not in gone}
        return len(gone)

    async def old_occurrences(self, before: datetime, limit: int) -> list[Occurrence]:
        return self._escalations.old_occurrences(before, limit)

    async def delete_occurrences(self, keys: Collection[tuple[str, str]]) -> int:
        return self._escalations.drop_occurrences(keys)

    def _places(self, kind: RetentionKind) -> list[tuple[datetime, str]]:
        match kind:
            case RetentionKind.PARKED:
                found = [(row.parked_at, key) for key, row in self._parked.items()]
            case RetentionKind.INCIDENTS:
                found = [(row.last_seen_at, key) for key, row in self._escalations.rows.items()]
            case RetentionKind.ESCALATION_POLICIES:
                found = [(row.last_seen_at, key) for key, row in self._escalations.policy_versions.items()]
            case RetentionKind.REDRIVES:
                found = [(row.updated_at, str(key)) for key, row in self._dead_letter_store.rows.items()]
            case RetentionKind.AGENTS:
                found = [(row.last_seen_at, key) for key, row in self._agents.items()]
            case RetentionKind.JOB_TYPES:
                found = [(row.announced_at, key) for key, row in self._job_types.items()]
            case RetentionKind.AUDIT_RECORDS:
                found = [(row.recorded_at, str(key)) for key, row in self._audit.items()]
        return found

    def _free(self, kind: RetentionKind, before: datetime) -> Mapping[str, OldRow]:
        match kind:
            case RetentionKind.PARKED:
                found: Mapping[str, OldRow] = {
                    key: row for key, row in self._parked.items() if row.parked_at < before
                }
            case RetentionKind.INCIDENTS:
                incidents = self._escalations.rows.items()
                found = {
                    key: row
                    for key, row in incidents
                    if row.closed_at is not None
                    and max(row.closed_at, row.last_seen_at) < before
                    and not self._escalations.occurrences(key)
                }
            case RetentionKind.ESCALATION_POLICIES:
                followed = {row.policy_version for row in self._escalations.rows.values()}
                versions = self._escalations.policy_versions.items()
                found = {
                    key: row for key, row in versions if row.last_seen_at < before and key not in followed
                }
            case RetentionKind.REDRIVES:
                held = {x.redrive_id for x in self._dead_letters.values() if x.state in _IN_HAND}
                redrives = self._dead_letter_store.rows.items()
                found = {
                    str(key): row
                    for key, row in redrives
                    if row.updated_at < before and row.wake_at is None and key not in held
                }
            case RetentionKind.AGENTS:
                found = {key: row for key, row in self._agents.items() if row.last_seen_at < before}
            case RetentionKind.JOB_TYPES:
                live = {row.job_type for row in self._live_jobs()}
                types = self._job_types.items()
                found = {key: row for key, row in types if row.announced_at < before and key not in live}
            case RetentionKind.AUDIT_RECORDS:
                found = {str(key): row for key, row in self._audit.items() if row.recorded_at < before}
        return found


def _is_old(row: JobRow, which: JobsBefore) -> bool:
    return (
        row.finished_at is not None
        and row.finished_at < which.finished
        and (row.idempotency_key is None or row.accepted_at < which.keyed)
    )


def _without(rows: Mapping[str, R], gone: Collection[str]) -> dict[str, R]:
    return {key: row for key, row in rows.items() if key not in gone}

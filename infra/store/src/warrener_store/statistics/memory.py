"""Statistics in memory: the plainest statement of what is stored. Nothing here awaits anything."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import AgentRow
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.jobs.rules import is_inlined_in_job
from warrener_store.statistics.port import Statistics
from warrener_store.statistics.rows import (
    AgentVersion,
    BucketSpan,
    CauseBucket,
    CauseKey,
    Deploy,
    EndedJob,
    RecentEnds,
    RollupPosition,
    SeriesBucket,
    SeriesKey,
    SeriesKind,
    SeriesQuery,
)
from warrener_store.statistics.sql import FAR_AWAY


class MemoryStatistics(Statistics):
    """A part of MemoryStore: it reads its jobs."""

    _jobs: dict[UUID, JobRow]
    _ended: list[tuple[datetime, UUID]]
    _attempts: dict[tuple[UUID, int], AttemptRow]
    _dead_letters: dict[UUID, DeadLetter]
    _agents: dict[str, AgentRow]

    def __init__(self) -> None:
        self._position = RollupPosition()
        self._series: dict[SeriesKey, SeriesBucket] = {}
        self._series_keys: list[SeriesKey] = []  # in order
        self._causes: dict[CauseKey, CauseBucket] = {}
        self._deploys: dict[tuple[str, datetime, str], Deploy] = {}
        self._agent_versions: dict[tuple[str, datetime], AgentVersion] = {}

    async def rollup_position(self) -> RollupPosition:
        return self._position

    async def ended_jobs(self, after: RollupPosition, until: datetime, limit: int) -> list[EndedJob]:
        first = bisect_right(self._ended, (after.finished_at, after.job_id))
        return [
            self._ended_job(self._jobs[job_id], finished_at)
            for finished_at, job_id in self._ended[first : first + limit]
            if finished_at <= until
        ]

    def _ended_job(self, row: JobRow, finished_at: datetime) -> EndedJob:
        attempt = self._attempts.get((row.job_id, row.attempt))
        inlined = attempt if attempt is not None and is_inlined_in_job(row, attempt) else None
        dead = self._dead_letters.get(row.job_id) if row.state is JobState.DEAD else None
        error = row.error if row.state is JobState.DEAD else None
        return EndedJob(
            job_id=row.job_id,
            job_type=row.job_type,
            state=row.state,
            source=row.source,
            agent_id=row.agent_id,
            failures=row.failures,
            losses=row.losses,
            dispatched_at=row.dispatched_at,
            started_at=(inlined and inlined.started_at) or row.started_at,
            ran_until=inlined.finished_at if inlined else finished_at,
            finished_at=finished_at,
            fingerprint="" if dead is None else dead.fingerprint,
            error_type=error.type if error else "",
            message=error.message if error else "",
        )

    async def recent_ends(self, since: datetime) -> list[RecentEnds]:
        first = bisect_right(self._ended, since, key=lambda end: end[0])
        rows = ((finished_at, self._jobs[job_id]) for finished_at, job_id in self._ended[first:])
        counts = Counter(
            (row.job_type, row.state, BucketSpan.MINUTE.floor(finished_at)) for finished_at, row in rows
        )
        return [
            RecentEnds(job_type=job_type, state=state, minute=minute, jobs=jobs)
            for (job_type, state, minute), jobs in counts.items()
        ]

    async def add_statistics(
        self, position: RollupPosition, buckets: Sequence[SeriesBucket], causes: Sequence[CauseBucket]
    ) -> bool:
        if self._position.revision not in (0, position.revision - 1):
            return False
        self._position = position
        for bucket in buckets:
            if bucket.key not in self._series:
                insort(self._series_keys, bucket.key)
            self._series[bucket.key] = bucket
        self._causes |= {cause.key: cause for cause in causes}
        return True

    async def series(self, which: SeriesQuery) -> list[SeriesBucket]:
        until = which.until or FAR_AWAY
        found: list[SeriesBucket] = []
        for name in sorted(set(which.names)):
            first = bisect_left(self._series_keys, SeriesKey(which.span, which.kind, name, which.since, ""))
            end = bisect_left(self._series_keys, SeriesKey(which.span, which.kind, name, until, ""), lo=first)
            found += [self._series[key] for key in self._series_keys[first:end]]
        return found

    async def causes(
        self, span: BucketSpan, job_types: Collection[str], since: datetime, until: datetime | None = None
    ) -> list[CauseBucket]:
        found = [
            cause
            for key, cause in self._causes.items()
            if key.span is span and key.job_type in job_types and since <= key.starts_at < (until or FAR_AWAY)
        ]
        return sorted(found, key=lambda cause: cause.key)

    async def series_names(self) -> list[tuple[SeriesKind, str]]:
        return sorted({(key.kind, key.name) for key in self._series if key.span is BucketSpan.DAY})

    async def drop_statistics(self, span: BucketSpan, before: datetime) -> None:
        keys = self._series_keys
        place = bisect_left(keys, span, key=lambda key: key.span)
        while place < len(keys) and keys[place].span is span:  # from series to series
            first = keys[place]
            end = bisect_left(keys, first._replace(starts_at=before, code_version=""), lo=place)
            for key in keys[place:end]:
                del self._series[key]
            del keys[place:end]
            place = bisect_left(keys, first._replace(starts_at=FAR_AWAY), lo=place)
        self._causes = {
            key: one for key, one in self._causes.items() if key.span is not span or key.starts_at >= before
        }

    async def put_deploys(self, deploys: Sequence[Deploy]) -> None:
        for one in deploys:
            key = one.job_type, one.first_seen_at, one.code_version
            held = self._deploys.get(key, one)
            self._deploys[key] = Deploy(
                job_type=one.job_type,
                first_seen_at=one.first_seen_at,
                code_version=one.code_version,
                last_seen_at=max(held.last_seen_at, one.last_seen_at),
                schema_hash=held.schema_hash,
            )

    async def deploys(
        self, since: datetime, job_types: Collection[str] | None = None, limit: int = 1000
    ) -> list[Deploy]:
        found = [
            one
            for one in self._deploys.values()
            if one.first_seen_at >= since and (job_types is None or one.job_type in job_types)
        ]
        by_name = sorted(found, key=lambda one: (one.job_type, one.code_version))
        return sorted(by_name, key=lambda one: one.first_seen_at, reverse=True)[:limit]

    async def put_agent_versions(self, versions: Sequence[AgentVersion]) -> None:
        for one in versions:
            self._agent_versions.setdefault((one.agent_id, one.since), one)

    async def agent_versions(self, agent_ids: Collection[str]) -> list[AgentVersion]:
        return [one for (agent_id, _), one in sorted(self._agent_versions.items()) if agent_id in agent_ids]

    async def drop_deploys(self, before: datetime) -> None:
        self._deploys = {key: one for key, one in self._deploys.items() if one.last_seen_at >= before}
        last = dict(key for key in sorted(self._agent_versions) if key[0] in self._agents)
        self._agent_versions = {
            key: one
            for key, one in self._agent_versions.items()
            if one.since >= before or last.get(one.agent_id) == one.since
        }

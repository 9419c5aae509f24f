"""Statistics: in both databases, then how each writes a step. Suite:
`tests/conformance/test_store_statistics.py`."""

import json
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from warrener_store.databases.session import SqlSession
from warrener_store.databases.transaction import TransactionalSession
from warrener_store.encoding import decode, unescape
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC, ColumnCodec, ColumnKind, RowMapper
from warrener_store.statistics.histogram import decode_histogram, encode_histogram
from warrener_store.statistics.rows import (
    AgentVersion,
    BucketSpan,
    CauseBucket,
    Deploy,
    EndedJob,
    RecentEnds,
    RollupPosition,
    SeriesBucket,
    SeriesKind,
    SeriesQuery,
)

_HISTOGRAM = ColumnKind(encode_histogram, decode_histogram)
SERIES_BUCKETS = RowMapper(SeriesBucket, kinds={"durations": _HISTOGRAM, "queue_times": _HISTOGRAM})
CAUSE_BUCKETS = RowMapper(CauseBucket)
DEPLOYS = RowMapper(Deploy)
AGENT_VERSIONS = RowMapper(AgentVersion)
POSITIONS = RowMapper(RollupPosition)
_RECENT_ENDS = RowMapper(RecentEnds)
ENDED_JOBS = RowMapper(
    EndedJob, [field.name for field in fields(EndedJob) if field.name not in {"error_type", "message"}]
)
WORDS = {
    "series_bucket": ", ".join(SERIES_BUCKETS.columns),
    "cause_bucket": ", ".join(CAUSE_BUCKETS.columns),
    "deploy": ", ".join(DEPLOYS.columns),
    "agent_version": ", ".join(AGENT_VERSIONS.columns),
}
FAR_AWAY = datetime(9999, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=10_000)
def _series_bucket(values: tuple[Any, ...], codec: ColumnCodec) -> SeriesBucket:
    """Decode a bucket. Those of the past do not change, and pages read them again with each rendering.

    A week of 60 series fits, in about 15 MB.
    """
    return SERIES_BUCKETS.from_row(values, codec)


class Statistics(SqlSession):
    """Jobs that are over, counted in buckets; and the versions of code that ran them.

    Nothing is counted while jobs run or end: one supervisor at a time reads the jobs that have ended since
    its last step, by an index, and adds them to the buckets.
    """

    @abstractmethod
    async def add_statistics(
        self, position: RollupPosition, buckets: Sequence[SeriesBucket], causes: Sequence[CauseBucket]
    ) -> bool:
        """Move the position and write these buckets whole, together; True if it was applied.

        Applies only if the stored revision is the one before. So of two supervisors one is first, and a
        repeat after a crash counts no job twice.
        """

    async def recent_ends(self, since: datetime) -> list[RecentEnds]:
        """Count the jobs that ended after a moment, by type, state and minute. Reads them all: `since` must
        be recent."""
        return await self._rows(_RECENT_ENDS, "recent_ends", self.codec.encode_moment(since))

    async def rollup_position(self) -> RollupPosition:
        """How far jobs are rolled up; the default one before the first step."""
        found = await self._query("rollup_position")
        return POSITIONS.from_row(found[0], self.codec) if found else RollupPosition()

    async def ended_jobs(self, after: RollupPosition, until: datetime, limit: int) -> list[EndedJob]:
        """The jobs that ended behind a position and at `until` or before, in order."""
        codec = self.codec
        place = codec.encode_moment(after.finished_at), codec.encode_id(after.job_id)
        found = await self._query("ended_jobs", *place, codec.encode_moment(until), limit)
        jobs = ((ENDED_JOBS.from_row(values, codec), _read_error(values[-1])) for values in found)
        return [replace(job, error_type=error_type, message=message) for job, (error_type, message) in jobs]

    async def series(self, which: SeriesQuery) -> list[SeriesBucket]:
        """These buckets, by name, time and version."""
        since, until = self._between(which.since, which.until)
        parameters = which.span.value, which.kind.value, self._names(which.names), since, until
        found = await self._query("series", *parameters)
        return [_series_bucket(tuple(values), self.codec) for values in found]

    async def causes(
        self, span: BucketSpan, job_types: Collection[str], since: datetime, until: datetime | None = None
    ) -> list[CauseBucket]:
        """The causes of death of these job types in buckets that begin from `since` until before `until`."""
        return await self._rows(
            CAUSE_BUCKETS, "causes", span.value, self._names(job_types), *self._between(since, until)
        )

    def _between(self, since: datetime, until: datetime | None) -> tuple[Any, Any]:
        return self.codec.encode_moment(since), self.codec.encode_moment(until or FAR_AWAY)

    async def series_names(self) -> list[tuple[SeriesKind, str]]:
        """The series that have a bucket of a day."""
        found = await self._query("series_names", BucketSpan.DAY.value)
        return sorted((SeriesKind(kind), unescape(name)) for kind, name in found)

    async def drop_statistics(self, span: BucketSpan, before: datetime) -> None:
        """Delete the buckets of this length that begin before a moment."""
        parameters = span.value, self.codec.encode_moment(before)
        await self._change("drop_series", *parameters)
        await self._change("drop_causes", *parameters)

    async def put_deploys(self, deploys: Sequence[Deploy]) -> None:
        """Insert deploys; of those that are stored, `last_seen_at` grows."""
        rows = sorted(DEPLOYS.to_row(one, self.codec) for one in deploys)
        await self._put_rows("put_deploy", rows)

    async def deploys(
        self, since: datetime, job_types: Collection[str] | None = None, limit: int = 1000
    ) -> list[Deploy]:
        """The deploys of these job types (None: all) first seen since a moment, the newest first."""
        names = None if job_types is None else self._names(job_types)
        return await self._rows(DEPLOYS, "deploys", self.codec.encode_moment(since), names, limit)

    async def put_agent_versions(self, versions: Sequence[AgentVersion]) -> None:
        """Note the versions that agents run; one by the same agent and moment stays as it is."""
        rows = sorted(AGENT_VERSIONS.to_row(one, self.codec) for one in versions)
        await self._put_rows("put_agent_version", rows)

    async def agent_versions(self, agent_ids: Collection[str]) -> list[AgentVersion]:
        """The versions that these agents have run, by agent and time."""
        return await self._rows(AGENT_VERSIONS, "agent_versions", self._names(agent_ids))

    async def drop_deploys(self, before: datetime) -> None:
        """Delete deploys last seen before a moment, and versions of agents from before; the last version of
        an agent stays while the agent is stored."""
        moment = self.codec.encode_moment(before)
        await self._change("drop_deploys", moment)
        await self._change("drop_agent_versions", moment)


def _read_error(text: str | None) -> tuple[str, str]:
    """The class and the message of a stored error; empty if there is none, or if it cannot be read."""
    if text is None:
        return "", ""
    try:
        error: dict[str, Any] = decode(text)
    except json.JSONDecodeError:
        return "", ""
    return str(error.get("type") or ""), str(error.get("message") or "")


class PostgresStatistics(Statistics):
    """In PostgreSQL a step is one statement."""

    async def add_statistics(
        self, position: RollupPosition, buckets: Sequence[SeriesBucket], causes: Sequence[CauseBucket]
    ) -> bool:
        series, dead = SERIES_BUCKETS.to_arrays(buckets), CAUSE_BUCKETS.to_arrays(causes)
        place = POSITIONS.to_row(position, POSTGRES_CODEC)
        return bool(await self._change("add_statistics", *place, *series, *dead))


class SqliteStatistics(Statistics, TransactionalSession):
    """In a SQLite file a step is one transaction."""

    async def add_statistics(
        self, position: RollupPosition, buckets: Sequence[SeriesBucket], causes: Sequence[CauseBucket]
    ) -> bool:
        async with self._writing() as transaction:
            if not await transaction.query("move_position", *POSITIONS.to_row(position, SQLITE_CODEC)):
                return False
            await transaction.run(
                "put_series", [SERIES_BUCKETS.to_row(bucket, SQLITE_CODEC) for bucket in buckets]
            )
            await transaction.run(
                "put_cause", [CAUSE_BUCKETS.to_row(cause, SQLITE_CODEC) for cause in causes]
            )
        return True

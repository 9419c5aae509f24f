"""Statistics in a SQLite file: a step is one transaction."""

from collections.abc import Sequence
from datetime import UTC, datetime

from warrener_contracts.state_machine import JobState
from warrener_store.databases.sqlite import SqliteSession
from warrener_store.encoding import unescape
from warrener_store.mapping import SQLITE_CODEC
from warrener_store.statistics.rows import CauseBucket, RecentEnds, RollupPosition, SeriesBucket
from warrener_store.statistics.sql import CAUSE_BUCKETS, POSITIONS, SERIES_BUCKETS, SqlStatistics


class SqliteStatistics(SqlStatistics, SqliteSession):
    """Buckets, deploys and versions."""

    codec = SQLITE_CODEC

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

    async def recent_ends(self, since: datetime) -> list[RecentEnds]:
        found = await self._query("recent_ends", SQLITE_CODEC.encode_moment(since))
        return [
            RecentEnds(
                job_type=unescape(job_type),
                state=JobState(state),
                minute=datetime.fromisoformat(minute).replace(tzinfo=UTC),
                jobs=jobs,
            )
            for job_type, state, minute, jobs in found
        ]

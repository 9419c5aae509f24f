"""Statistics in PostgreSQL: a step is one statement."""

from collections.abc import Sequence
from datetime import datetime

from warrener_contracts.state_machine import JobState
from warrener_store.batches import to_columns
from warrener_store.databases.postgres import PostgresSession
from warrener_store.encoding import unescape
from warrener_store.mapping import POSTGRES_CODEC
from warrener_store.statistics.rows import CauseBucket, RecentEnds, RollupPosition, SeriesBucket
from warrener_store.statistics.sql import CAUSE_BUCKETS, POSITIONS, SERIES_BUCKETS, SqlStatistics


class PostgresStatistics(SqlStatistics, PostgresSession):
    """Buckets, deploys and versions."""

    codec = POSTGRES_CODEC

    async def add_statistics(
        self, position: RollupPosition, buckets: Sequence[SeriesBucket], causes: Sequence[CauseBucket]
    ) -> bool:
        series = to_columns(
            len(SERIES_BUCKETS.columns), [SERIES_BUCKETS.to_row(bucket, POSTGRES_CODEC) for bucket in buckets]
        )
        dead = to_columns(
            len(CAUSE_BUCKETS.columns), [CAUSE_BUCKETS.to_row(cause, POSTGRES_CODEC) for cause in causes]
        )
        place = POSITIONS.to_row(position, POSTGRES_CODEC)
        return bool(await self._change("add_statistics", *place, *series, *dead))

    async def recent_ends(self, since: datetime) -> list[RecentEnds]:
        return [
            RecentEnds(job_type=unescape(job_type), state=JobState(state), minute=minute, jobs=jobs)
            for job_type, state, minute, jobs in await self._query("recent_ends", since)
        ]

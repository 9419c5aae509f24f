"""The port of statistics. Suite: `tests/conformance/test_store_statistics.py`."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

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


class Statistics(Protocol):
    """Jobs that are over, counted in buckets; and the versions of code that ran them.

    Nothing is counted while jobs run or end: one supervisor at a time reads the jobs that have ended since
    its last step, by an index, and adds them to the buckets.
    """

    async def rollup_position(self) -> RollupPosition:
        """How far jobs are rolled up; the default one before the first step."""
        ...

    async def ended_jobs(self, after: RollupPosition, until: datetime, limit: int) -> list[EndedJob]:
        """The jobs that ended behind a position and at `until` or before, in order."""
        ...

    async def recent_ends(self, since: datetime) -> list[RecentEnds]:
        """Count the jobs that ended after a moment, by type, state and minute. Reads them all: `since` must
        be recent."""
        ...

    async def add_statistics(
        self, position: RollupPosition, buckets: Sequence[SeriesBucket], causes: Sequence[CauseBucket]
    ) -> bool:
        """Move the position and write these buckets whole, together; True if it was applied.

        Applies only if the stored revision is the one before. So of two supervisors one is first, and a
        repeat after a crash counts no job twice.
        """
        ...

    async def series(self, which: SeriesQuery) -> list[SeriesBucket]:
        """These buckets, by name, time and version."""
        ...

    async def causes(
        self, span: BucketSpan, job_types: Collection[str], since: datetime, until: datetime | None = None
    ) -> list[CauseBucket]:
        """The causes of death of these job types in buckets that begin from `since` until before `until`."""
        ...

    async def series_names(self) -> list[tuple[SeriesKind, str]]:
        """The series that have a bucket of a day."""
        ...

    async def drop_statistics(self, span: BucketSpan, before: datetime) -> None:
        """Delete the buckets of this length that begin before a moment."""
        ...

    async def put_deploys(self, deploys: Sequence[Deploy]) -> None:
        """Insert deploys; of those that are stored, `last_seen_at` grows."""
        ...

    async def deploys(
        self, since: datetime, job_types: Collection[str] | None = None, limit: int = 1000
    ) -> list[Deploy]:
        """The deploys of these job types (None: all) first seen since a moment, the newest first."""
        ...

    async def put_agent_versions(self, versions: Sequence[AgentVersion]) -> None:
        """Note the versions that agents run; one by the same agent and moment stays as it is."""
        ...

    async def agent_versions(self, agent_ids: Collection[str]) -> list[AgentVersion]:
        """The versions that these agents have run, by agent and time."""
        ...

    async def drop_deploys(self, before: datetime) -> None:
        """Delete deploys last seen before a moment, and versions of agents from before; the last version of
        an agent stays while the agent is stored."""
        ...

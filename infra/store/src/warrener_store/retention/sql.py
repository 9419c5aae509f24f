"""Retention in both databases: the operations that have the same statement in each."""

from abc import abstractmethod
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from warrener_contracts.identity import schedule_from_source
from warrener_store.databases.session import SqlSession
from warrener_store.mapping import RowMapper, decode_text, encode_text
from warrener_store.retention.port import Retention
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.rows import (
    JobsBefore,
    Occurrence,
    OldJobs,
    OldRows,
    RetentionKind,
)

OCCURRENCES = RowMapper(Occurrence)
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class SqlRetention(SqlSession, Retention):
    """A database adds how rows are deleted."""

    @abstractmethod
    async def _runs_in_use(self, schedules: Collection[str]) -> set[UUID]:
        """The jobs of these schedules that a later decision needs."""

    @abstractmethod
    def _key(self, kind: RetentionKind, key: str) -> Any:
        """The key of a row of this kind as a parameter."""

    def _conditions(self, which: JobsBefore) -> tuple[Any, Any]:
        return self.codec.encode_moment(which.finished), self.codec.encode_moment(which.keyed)

    def _sorted_ids(self, job_ids: Collection[UUID]) -> Any:
        return self._ids(sorted(set(job_ids)))

    async def old_jobs(self, which: JobsBefore, after: tuple[datetime, UUID] | None, limit: int) -> OldJobs:
        codec = self.codec
        accepted_at, job_id = after or (_BEGIN, UUID(int=0))
        place = codec.encode_moment(accepted_at), codec.encode_id(job_id)
        kind = which.state.value, encode_text(which.job_type)
        found = await self._query("old_jobs", *self._conditions(which), *kind, *place, limit)
        free = [
            (codec.decode_id(row[0]), schedule_from_source(decode_text(row[2]) or ""))
            for row in found
            if row[3]
        ]
        names = sorted({schedule for _, schedule in free if schedule is not None})
        in_use = await self._runs_in_use(names) if names else set[UUID]()
        is_full = len(found) == limit
        last = (codec.decode_moment(found[-1][1]), codec.decode_id(found[-1][0])) if is_full else None
        return OldJobs(tuple(job_id for job_id, _ in free if job_id not in in_use), last)

    async def old_rows(
        self, kind: RetentionKind, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> OldRows:
        codec, place = self.codec, PRUNABLE_TABLES[kind]
        moment, key = after or (_BEGIN, str(UUID(int=0)) if place.key_is_id else "")
        parameters = (codec.encode_moment(before), codec.encode_moment(moment), self._key(kind, key), limit)
        found = await self._query_text(place.page(), parameters)
        at, when = place.columns.index(place.key), place.columns.index(place.moment)
        rows = {str(values[at]): place.from_row(values[:-1], codec) for values in found if values[-1]}
        last = (codec.decode_moment(found[-1][when]), str(found[-1][at])) if len(found) == limit else None
        return OldRows(rows, last)

    async def old_occurrences(self, before: datetime, limit: int) -> list[Occurrence]:
        found = await self._query("old_occurrences", self.codec.encode_moment(before), limit)
        return [OCCURRENCES.from_row(values, self.codec) for values in found]

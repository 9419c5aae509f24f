"""Retention in both databases: the operations that have the same statement in each."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from warrener_store.databases.session import SqlSession
from warrener_store.dead_letters.columns import DEAD_LETTERS
from warrener_store.encoding import escape
from warrener_store.jobs.columns import ATTEMPTS, CHECKPOINTS, JOB, job_from_row
from warrener_store.jobs.rows import AttemptRow
from warrener_store.mapping import RowMapper, decode_text, encode_text
from warrener_store.retention.port import Retention
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.rows import (
    JobRecord,
    JobsBefore,
    Occurrence,
    OldJob,
    OldJobs,
    OldRows,
    RetentionKind,
)

OCCURRENCES = RowMapper(Occurrence)
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_ATTEMPT = ", ".join(ATTEMPTS.columns)
_DEAD_LETTER = ", ".join(DEAD_LETTERS.columns)


class SqlRetention(SqlSession, Retention):
    """A database adds how rows are deleted."""

    @abstractmethod
    def _among(self, column: str) -> str:
        """The condition that a column is one of the ids in $1."""

    @abstractmethod
    def _key(self, kind: RetentionKind, key: str) -> Any:
        """The key of a row of this kind as a parameter."""

    def _conditions(self, which: JobsBefore) -> tuple[Any, Any]:
        return self.codec.encode_moment(which.finished), self.codec.encode_moment(which.keyed)

    def _sorted_ids(self, job_ids: Collection[UUID]) -> Any:
        return self._ids(sorted(set(job_ids)))

    async def claim_pruning(self, holder: str, now: datetime, until: datetime) -> bool:
        moments = self.codec.encode_moment(now), self.codec.encode_moment(until)
        return bool(await self._change("claim_pruning", escape(holder), *moments))

    async def old_jobs(self, which: JobsBefore, after: tuple[datetime, UUID] | None, limit: int) -> OldJobs:
        codec = self.codec
        accepted_at, job_id = after or (_BEGIN, UUID(int=0))
        place = codec.encode_moment(accepted_at), codec.encode_id(job_id)
        kind = which.state.value, encode_text(which.job_type)
        found = await self._query("old_jobs", *self._conditions(which), *kind, *place, limit)
        free = tuple(OldJob(codec.decode_id(row[0]), decode_text(row[2]) or "") for row in found if row[3])
        is_full = len(found) == limit
        last = (codec.decode_moment(found[-1][1]), codec.decode_id(found[-1][0])) if is_full else None
        return OldJobs(free, last)

    async def job_records(self, job_ids: Collection[UUID]) -> list[JobRecord]:
        if not job_ids:
            return []
        codec, ids = self.codec, self._sorted_ids(job_ids)
        job_text = f"SELECT {JOB} FROM warrener_jobs AS job WHERE {self._among('job.job_id')}"  # noqa: S608 - made of constants alone
        jobs = [job_from_row(values, codec) for values in await self._query_text(job_text, (ids,))]
        attempts: defaultdict[UUID, list[AttemptRow]] = defaultdict(list)
        for values in await self._query_text(self._attempts_text(), (ids,)):
            attempt = ATTEMPTS.from_row(values, codec)
            attempts[attempt.job_id].append(attempt)
        dead_letter_text = f"SELECT {_DEAD_LETTER} FROM warrener_dead_letters WHERE {self._among('job_id')}"  # noqa: S608 - as above
        found = await self._query_text(dead_letter_text, (ids,))
        dead_letters = {row.job_id: row for row in (DEAD_LETTERS.from_row(each, codec) for each in found)}
        found = await self._query("checkpoints_of", ids)
        checkpoints = {row.job_id: row for row in (CHECKPOINTS.from_row(each, codec) for each in found)}
        return [
            JobRecord(
                job,
                tuple(attempts[job.job_id]),
                dead_letters.get(job.job_id),
                checkpoints.get(job.job_id),
            )
            for job in jobs
        ]

    def _attempts_text(self) -> str:
        """The statement `attempts_of` for many jobs."""
        return (
            f"SELECT {_ATTEMPT} FROM warrener_attempts WHERE {self._among('job_id')} "  # noqa: S608 - as above
            "UNION ALL SELECT job_id, attempt, 'succeeded', owner, dispatched_at, ran_from, ran_until, NULL, "
            f"'done' FROM warrener_jobs AS job WHERE {self._among('job.job_id')} AND ran_until IS NOT NULL "
            "AND NOT EXISTS (SELECT 1 FROM warrener_attempts AS kept "
            "WHERE kept.job_id = job.job_id AND kept.attempt = job.attempt) ORDER BY 1, 2"
        )

    async def release_keys(self, job_ids: Collection[UUID]) -> None:
        await self._change("release_keys", self._sorted_ids(job_ids))

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

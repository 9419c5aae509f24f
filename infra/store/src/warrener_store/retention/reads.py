"""What both databases are asked about what is old, in the same words."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from warrener_store.checkpoints import CheckpointRow
from warrener_store.encoding import unescape
from warrener_store.records.codec import ColumnCodec, decode_document, decode_text, encode_text
from warrener_store.records.jobs import job_from_row
from warrener_store.records.outcomes import (
    ATTEMPT_COLUMNS,
    DEAD_LETTER_COLUMNS,
    attempt_from_row,
    dead_letter_from_row,
)
from warrener_store.retention.port import (
    JobRecord,
    JobsBefore,
    Occurrence,
    OldJob,
    OldJobs,
    OldRows,
    Retention,
    RetentionKind,
)
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.rows import AttemptRow
from warrener_store.sql import JOB

RunQuery = Callable[..., Awaitable[Sequence[Sequence[Any]]]]

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_ATTEMPT = ", ".join(ATTEMPT_COLUMNS)
_DEAD_LETTER = ", ".join(DEAD_LETTER_COLUMNS)


class RetentionReads(Retention, ABC):
    """The questions of the port; a database adds the changes, and how it takes a batch of ids."""

    codec: ColumnCodec

    def __init__(self, query: RunQuery, query_text: RunQuery) -> None:
        self._query, self._query_text = query, query_text

    @abstractmethod
    def _among(self, column: str) -> str:
        """That a column is one of the ids in $1."""

    @abstractmethod
    def _ids(self, job_ids: Collection[UUID]) -> Any:
        """These ids as one parameter."""

    def _conditions(self, which: JobsBefore) -> tuple[Any, Any]:
        return self.codec.encode_moment(which.finished), self.codec.encode_moment(which.keyed)

    async def old_jobs(self, which: JobsBefore, after: tuple[datetime, UUID] | None, limit: int) -> OldJobs:
        codec = self.codec
        accepted_at, job_id = after or (_BEGIN, UUID(int=0))
        place = (codec.encode_moment(accepted_at), codec.encode_id(job_id))
        kind = (which.state.value, encode_text(which.job_type))
        found = await self._query("old_jobs", *self._conditions(which), *kind, *place, limit)
        free = tuple(OldJob(codec.decode_id(row[0]), decode_text(row[2]) or "") for row in found if row[3])
        last = (
            (codec.decode_moment(found[-1][1]), codec.decode_id(found[-1][0]))
            if len(found) == limit
            else None
        )
        return OldJobs(free, last)

    async def job_records(self, job_ids: Collection[UUID]) -> list[JobRecord]:
        if not job_ids:
            return []
        codec, ids = self.codec, self._ids(job_ids)
        job_text = f"SELECT {JOB} FROM warrener_jobs AS job WHERE {self._among('job.job_id')}"  # noqa: S608
        jobs = [job_from_row(values, codec) for values in await self._query_text(job_text, (ids,))]
        attempts: defaultdict[UUID, list[AttemptRow]] = defaultdict(list)
        for values in await self._query_text(self._attempts_text(), (ids,)):
            attempts[codec.decode_id(values[0])].append(attempt_from_row(values, codec))
        dead_letters_query = f"SELECT {_DEAD_LETTER} FROM warrener_dead_letters WHERE {self._among('job_id')}"  # noqa: S608
        dead_letters = (
            dead_letter_from_row(values, codec)
            for values in await self._query_text(dead_letters_query, (ids,))
        )
        by_job = {dead_letter.job_id: dead_letter for dead_letter in dead_letters}
        saved = {row.job_id: row for row in map(self._checkpoint, await self._query("checkpoints_of", ids))}
        return [
            JobRecord(job, tuple(attempts[job.job_id]), by_job.get(job.job_id), saved.get(job.job_id))
            for job in jobs
        ]

    def _attempts_text(self) -> str:
        """As `attempts_of` asks, for many."""
        return (
            f"SELECT {_ATTEMPT} FROM warrener_attempts WHERE {self._among('job_id')} "  # noqa: S608
            "UNION ALL SELECT job_id, attempt, 'succeeded', owner, dispatched_at, ran_from, ran_until, NULL, "
            f"'done' FROM warrener_jobs AS job WHERE {self._among('job.job_id')} AND ran_until IS NOT NULL "
            "AND NOT EXISTS (SELECT 1 FROM warrener_attempts AS kept "
            "WHERE kept.job_id = job.job_id AND kept.attempt = job.attempt) ORDER BY 1, 2"
        )

    def _checkpoint(self, values: Sequence[Any]) -> CheckpointRow:
        job_id, attempt, number, state, saved_at = values
        return CheckpointRow(
            job_id=self.codec.decode_id(job_id),
            attempt=attempt,
            number=number,
            state=decode_document(state),
            saved_at=self.codec.decode_moment(saved_at),
        )

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
        return [
            Occurrence(unescape(row[0]), unescape(row[1]), unescape(row[2]), self.codec.decode_moment(row[3]))
            for row in found
        ]

    @abstractmethod
    def _key(self, kind: RetentionKind, key: str) -> Any:
        """The key of a row of this kind as a parameter."""

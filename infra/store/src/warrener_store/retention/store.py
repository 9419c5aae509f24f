"""Retention: in both databases, then what each does in its own way. Suite:
`tests/conformance/test_retention.py`.

Finding and deleting are two steps, so that rows can be exported in between. Every deletion checks its
conditions again, skips rows that other callers hold, and changes nothing if it is repeated."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from warrener_contracts.identity import schedule_from_source
from warrener_store.batches import to_columns
from warrener_store.databases.session import SqlSession
from warrener_store.databases.transaction import TransactionalSession
from warrener_store.encoding import encode, escape
from warrener_store.mapping import SQLITE_CODEC, RowMapper, decode_text, encode_text
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.rows import JobsBefore, Occurrence, OldJobs, OldRows, RetentionKind

OCCURRENCES = RowMapper(Occurrence)
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class Retention(SqlSession):
    """Old rows of all aggregates. Errors are those of the state store."""

    @abstractmethod
    async def delete_jobs(self, which: JobsBefore, job_ids: Collection[UUID]) -> int:
        """Delete those of these that are still deletable, with attempts, log lines, dead letter, checkpoint
        and cancel mark.

        Returns how many.
        """

    @abstractmethod
    async def delete_rows(self, kind: RetentionKind, before: datetime, keys: Collection[str]) -> int:
        """Delete those of these that are still deletable; returns how many."""

    @abstractmethod
    async def delete_occurrences(self, keys: Collection[tuple[str, str]]) -> int:
        """Delete these; returns how many. Until then an open incident names their jobs."""

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
        """Examine `limit` jobs, the first accepted first.

        A job may be deleted if it is old enough and nothing live refers to it: it has no child in the store
        (so a tree is deleted from its leaves up), its parent is over, no redrive has claimed its dead letter
        or waits for it, and no open incident names it. Left out are the jobs of schedules that a later
        decision needs: the last run if the next one depends on it, the newest success, and every run since
        that if the schedule is watched.
        """
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
        """Examine `limit` older rows of this kind, the oldest first."""
        codec, place = self.codec, PRUNABLE_TABLES[kind]
        moment, key = after or (_BEGIN, str(UUID(int=0)) if place.key_is_id else "")
        parameters = (codec.encode_moment(before), codec.encode_moment(moment), self._key(kind, key), limit)
        found = await self._query_text(place.page(), parameters)
        at, when = place.columns.index(place.key), place.columns.index(place.moment)
        rows = {str(values[at]): place.from_row(values[:-1], codec) for values in found if values[-1]}
        last = (codec.decode_moment(found[-1][when]), str(found[-1][at])) if len(found) == limit else None
        return OldRows(rows, last)

    async def old_occurrences(self, before: datetime, limit: int) -> list[Occurrence]:
        """The oldest occurrences of incidents that were raised before then, at most `limit`."""
        return await self._rows(OCCURRENCES, "old_occurrences", self.codec.encode_moment(before), limit)


class PostgresRetention(Retention):
    """In PostgreSQL each operation is one statement that waits for no lock."""

    def _key(self, kind: RetentionKind, key: str) -> str | UUID:
        return UUID(key) if PRUNABLE_TABLES[kind].key_is_id else key

    async def delete_jobs(self, which: JobsBefore, job_ids: Collection[UUID]) -> int:
        ids = self._sorted_ids(job_ids)
        return len(await self._change("delete_jobs", *self._conditions(which), ids))

    async def _runs_in_use(self, schedules: Collection[str]) -> set[UUID]:
        return {row[0] for row in await self._query("runs_in_use", list(schedules))}

    async def delete_rows(self, kind: RetentionKind, before: datetime, keys: Collection[str]) -> int:
        place = PRUNABLE_TABLES[kind]
        named = f"= ANY ($2::{'uuid' if place.key_is_id else 'text'}[])"
        key_values = [self._key(kind, key) for key in keys]
        gone = await self._query_text(place.deletion(named, skip_locked=True), (before, key_values))
        if kind is RetentionKind.JOB_TYPES:
            await self._change("drop_counts", key_values)
        return len(gone)

    async def delete_occurrences(self, keys: Collection[tuple[str, str]]) -> int:
        rows = sorted((escape(fingerprint), escape(occurrence)) for fingerprint, occurrence in keys)
        return len(await self._change("delete_occurrences", *to_columns(2, rows))) if rows else 0


class SqliteRetention(Retention, TransactionalSession):
    """In a SQLite file each deletion is one transaction."""

    def _key(self, kind: RetentionKind, key: str) -> str:
        del kind  # every key is a text
        return key

    async def delete_jobs(self, which: JobsBefore, job_ids: Collection[UUID]) -> int:
        async with self._writing() as transaction:
            parameters = (*self._conditions(which), self._sorted_ids(job_ids))
            old = await transaction.query("prunable_jobs", *parameters)
            await transaction.run("delete_job", [(row[0],) for row in old])
            counts = Counter((str(row[1]), str(row[2]), str(row[3])) for row in old)
            await transaction.count(Counter({kind: -jobs for kind, jobs in counts.items()}))
        return len(old)

    async def _runs_in_use(self, schedules: Collection[str]) -> set[UUID]:
        found = [row for name in schedules for row in await self._query("runs_in_use", name)]
        return {UUID(row[0]) for row in found}

    async def delete_rows(self, kind: RetentionKind, before: datetime, keys: Collection[str]) -> int:
        text = PRUNABLE_TABLES[kind].deletion("IN (SELECT value FROM json_each($2))", skip_locked=False)
        encoded_keys = encode(list(keys))
        async with self._writing() as transaction:
            gone = await transaction.query_text(text, SQLITE_CODEC.encode_moment(before), encoded_keys)
            if kind is RetentionKind.JOB_TYPES:
                await transaction.run("drop_counts", [(encoded_keys,)])
        return len(gone)

    async def delete_occurrences(self, keys: Collection[tuple[str, str]]) -> int:
        encoded_keys = encode([(escape(fingerprint), escape(occurrence)) for fingerprint, occurrence in keys])
        return len(await self._change("delete_occurrences", encoded_keys))

"""Retention in a SQLite file: a batch is one transaction."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from warrener_store.databases.sqlite import SqliteSession
from warrener_store.encoding import encode, escape
from warrener_store.mapping import SQLITE_CODEC
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.rows import JobsBefore, RetentionKind
from warrener_store.retention.sql import SqlRetention


class SqliteRetention(SqlRetention, SqliteSession):
    """Old rows of all aggregates."""

    codec = SQLITE_CODEC

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

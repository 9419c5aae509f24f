"""Retention in a SQLite file: a batch is one transaction, as everywhere there."""

from collections import Counter
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_store.encoding import encode, escape
from warrener_store.records.codec import SQLITE_CODEC
from warrener_store.retention.port import JobsBefore, RetentionKind
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.reads import RetentionReads, RunQuery
from warrener_store.sqlite_transaction import CountingTransaction


class SqliteRetention(RetentionReads):
    """Reads and writes as the state store does."""

    codec = SQLITE_CODEC

    def __init__(
        self,
        query: RunQuery,
        query_text: RunQuery,
        writing: Callable[[], AbstractAsyncContextManager[CountingTransaction]],
    ) -> None:
        super().__init__(query, query_text)
        self._writing = writing

    def _among(self, column: str) -> str:
        return f"{column} IN (SELECT value FROM json_each($1))"  # noqa: S608 - a column of ours

    def _ids(self, job_ids: Collection[UUID]) -> str:
        return encode(sorted({str(job_id) for job_id in job_ids}))

    def _key(self, kind: RetentionKind, key: str) -> Any:
        del kind
        return key

    async def claim_pruning(self, holder: str, now: datetime, until: datetime) -> bool:
        moments = (SQLITE_CODEC.encode_moment(now), SQLITE_CODEC.encode_moment(until))
        async with self._writing() as transaction:
            return bool(await transaction.query("claim_pruning", holder, *moments))

    async def delete_jobs(self, which: JobsBefore, job_ids: Collection[UUID]) -> int:
        async with self._writing() as transaction:
            parameters = (*self._conditions(which), self._ids(job_ids))
            old = await transaction.query("prunable_jobs", *parameters)
            await transaction.run("delete_job", [(row[0],) for row in old])
            counts = Counter((str(row[1]), str(row[2])) for row in old)
            await transaction.count(Counter({kind: -jobs for kind, jobs in counts.items()}))
        return len(old)

    async def runs_in_use(self, schedules: Collection[str]) -> set[UUID]:
        found = [row for name in schedules for row in await self._query("runs_in_use", name)]
        return {UUID(row[0]) for row in found}

    async def release_keys(self, job_ids: Collection[UUID]) -> None:
        async with self._writing() as transaction:
            await transaction.run("release_keys", [(self._ids(job_ids),)])

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
        async with self._writing() as transaction:
            return len(await transaction.query("delete_occurrences", encoded_keys))

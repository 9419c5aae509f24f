"""Retention in PostgreSQL: each operation is one statement that waits for no lock."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from warrener_store.batches import to_columns
from warrener_store.databases.postgres import PostgresSession
from warrener_store.encoding import escape
from warrener_store.mapping import POSTGRES_CODEC
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.rows import JobsBefore, RetentionKind
from warrener_store.retention.sql import SqlRetention


class PostgresRetention(SqlRetention, PostgresSession):
    """Old rows of all aggregates."""

    codec = POSTGRES_CODEC

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

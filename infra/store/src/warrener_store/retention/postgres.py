"""Retention in PostgreSQL: each operation is one statement that waits for no lock."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_store.encoding import escape
from warrener_store.records.codec import POSTGRES_CODEC
from warrener_store.retention.port import JobsBefore, RetentionKind
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.reads import RetentionReads, RunQuery

Change = Callable[..., Awaitable[Sequence[Sequence[Any]]]]


class PostgresRetention(RetentionReads):
    """Runs its statements as the state store does: `change` for what changes something."""

    codec = POSTGRES_CODEC

    def __init__(self, query: RunQuery, query_text: RunQuery, change: Change) -> None:
        super().__init__(query, query_text)
        self._change = change

    def _among(self, column: str) -> str:
        return f"{column} = ANY ($1::uuid[])"

    def _ids(self, job_ids: Collection[UUID]) -> list[UUID]:
        return sorted(set(job_ids))

    def _key(self, kind: RetentionKind, key: str) -> str | UUID:
        return UUID(key) if PRUNABLE_TABLES[kind].key_is_id else key

    async def claim_pruning(self, holder: str, now: datetime, until: datetime) -> bool:
        return bool(await self._change("claim_pruning", holder, now, until))

    async def delete_jobs(self, which: JobsBefore, job_ids: Collection[UUID]) -> int:
        return len(await self._change("delete_jobs", *self._conditions(which), self._ids(job_ids)))

    async def runs_in_use(self, schedules: Collection[str]) -> set[UUID]:
        return {row[0] for row in await self._query("runs_in_use", list(schedules))} if schedules else set()

    async def release_keys(self, job_ids: Collection[UUID]) -> None:
        await self._change("release_keys", self._ids(job_ids))

    async def delete_rows(self, kind: RetentionKind, before: datetime, keys: Collection[str]) -> int:
        place = PRUNABLE_TABLES[kind]
        named = f"= ANY ($2::{'uuid' if place.key_is_id else 'text'}[])"
        key_values = [self._key(kind, key) for key in keys]
        gone = await self._query_text(place.deletion(named, skip_locked=True), (before, key_values))
        if kind is RetentionKind.JOB_TYPES:
            await self._change("drop_counts", key_values)
        return len(gone)

    async def delete_occurrences(self, keys: Collection[tuple[str, str]]) -> int:
        key_values = sorted((escape(fingerprint), escape(occurrence)) for fingerprint, occurrence in keys)
        columns = [one[0] for one in key_values], [one[1] for one in key_values]
        return len(await self._change("delete_occurrences", *columns)) if key_values else 0

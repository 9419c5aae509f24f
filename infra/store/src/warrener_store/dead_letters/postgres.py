"""Redrives in PostgreSQL: each change is one statement."""

from collections.abc import Sequence
from datetime import datetime

from warrener_store.batches import compact_columns
from warrener_store.databases.postgres import PostgresSession
from warrener_store.dead_letters.columns import (
    TRANSITION_WIDTH,
    progress_to_row,
    redrive_from_row,
    sort_by_job,
    transition_to_row,
)
from warrener_store.dead_letters.rows import DeadLetterTransition, RedriveRow
from warrener_store.dead_letters.sql import SqlDeadLetters
from warrener_store.mapping import POSTGRES_CODEC


class PostgresDeadLetters(SqlDeadLetters, PostgresSession):
    """Dead letters and redrives."""

    codec = POSTGRES_CODEC

    async def claim_redrives(self, now: datetime, until: datetime, limit: int) -> list[RedriveRow]:
        found = await self._change("claim_redrives", now, until, limit)
        rows = sorted(found, key=lambda row: (row[-1], row[0]))  # UPDATE … RETURNING gives no order
        return [redrive_from_row(values, POSTGRES_CODEC) for values in rows]

    async def _save_progress(self, row: RedriveRow, moves: Sequence[DeadLetterTransition]) -> bool:
        progress = progress_to_row(row, POSTGRES_CODEC)
        columns = compact_columns(
            TRANSITION_WIDTH, (transition_to_row(move, POSTGRES_CODEC) for move in sort_by_job(moves))
        )
        return bool(await self._change("save_redrive", row.redrive_id, *progress, *columns))

"""Redrives in a SQLite file: each change is one transaction."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from warrener_store.databases.sqlite import SqliteSession
from warrener_store.dead_letters.columns import (
    progress_to_row,
    redrive_from_row,
    sort_by_job,
    transition_to_row,
)
from warrener_store.dead_letters.rows import DeadLetterTransition, RedriveRow
from warrener_store.dead_letters.sql import SqlDeadLetters
from warrener_store.mapping import SQLITE_CODEC


class SqliteDeadLetters(SqlDeadLetters, SqliteSession):
    """Dead letters and redrives."""

    codec = SQLITE_CODEC

    async def claim_redrives(self, now: datetime, until: datetime, limit: int) -> list[RedriveRow]:
        question = ("due_redrives", SQLITE_CODEC.encode_moment(now), limit)
        if not await self._query(*question):
            return []  # most calls find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            due = await transaction.query(*question)
            found = [redrive_from_row(values, SQLITE_CODEC) for values in due]
            ids = self._ids([row.redrive_id for row in found])
            await transaction.run("claim_redrives", [(ids, SQLITE_CODEC.encode_moment(until))])
        return [replace(row, version=row.version + 1, wake_at=until) for row in found]

    async def _save_progress(self, row: RedriveRow, moves: Sequence[DeadLetterTransition]) -> bool:
        redrive_id = str(row.redrive_id)
        async with self._writing() as transaction:
            progress = progress_to_row(row, SQLITE_CODEC)
            counted = await transaction.query("save_redrive", *progress, redrive_id)
            if counted:
                rows = (transition_to_row(move, SQLITE_CODEC) for move in sort_by_job(moves))
                await transaction.run("move_dead_letter", ((*values, redrive_id) for values in rows))
        return bool(counted)

"""Dead letters and campaigns in a SQLite file: a batch is one transaction, as everywhere there."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime

from warrener_store.dead_letter_reads import DeadLetterReads, RunQuery
from warrener_store.dead_letters import CampaignRow, DeadLetterTransition
from warrener_store.encoding import encode
from warrener_store.records.campaigns import (
    campaign_from_row,
    campaign_to_row,
    progress_to_row,
    sort_by_job,
    transition_to_row,
)
from warrener_store.records.codec import SQLITE_CODEC
from warrener_store.sql import statement
from warrener_store.sqlite_transaction import WriteTransaction


class SqliteDeadLetters(DeadLetterReads):
    """Reads and writes as the state store does."""

    codec = SQLITE_CODEC

    def __init__(
        self, query_text: RunQuery, writing: Callable[[], AbstractAsyncContextManager[WriteTransaction]]
    ) -> None:
        super().__init__(query_text)
        self._writing = writing

    async def put_campaign(self, row: CampaignRow) -> bool:
        async with self._writing() as transaction:
            return bool(await transaction.query("put_campaign", *campaign_to_row(row, SQLITE_CODEC)))

    async def claim_campaigns(self, now: datetime, until: datetime, limit: int) -> list[CampaignRow]:
        due = (SQLITE_CODEC.encode_moment(now), limit)
        if not await self._query_text(statement("sqlite", "due_campaigns"), due):
            return []  # most looks find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = [
                campaign_from_row(values, SQLITE_CODEC)
                for values in await transaction.query("due_campaigns", *due)
            ]
            ids = encode([str(row.campaign_id) for row in found])
            await transaction.run("claim_campaigns", [(ids, SQLITE_CODEC.encode_moment(until))])
        return [replace(row, version=row.version + 1, wake_at=until) for row in found]

    async def save_campaign(self, row: CampaignRow, moves: Sequence[DeadLetterTransition] = ()) -> bool:
        campaign_id = str(row.campaign_id)
        async with self._writing() as transaction:
            counted = await transaction.query(
                "save_campaign", *progress_to_row(row, SQLITE_CODEC), campaign_id
            )
            if counted:
                rows = (transition_to_row(move, SQLITE_CODEC) for move in sort_by_job(moves))
                await transaction.run("move_letter", ((*values, campaign_id) for values in rows))
        return bool(counted)

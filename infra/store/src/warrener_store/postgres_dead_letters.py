"""Dead letters and campaigns in PostgreSQL: each change is one statement."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from warrener_store.arrays import compact_columns
from warrener_store.dead_letter_reads import DeadLetterReads, RunQuery
from warrener_store.dead_letters import CampaignRow, DeadLetterTransition
from warrener_store.records.campaigns import (
    TRANSITION_WIDTH,
    campaign_from_row,
    campaign_to_row,
    progress_to_row,
    sort_by_job,
    transition_to_row,
)
from warrener_store.records.codec import POSTGRES_CODEC

Change = Callable[..., Awaitable[Sequence[Sequence[Any]]]]


class PostgresDeadLetters(DeadLetterReads):
    """Runs its statements as the state store does: `query_text` for questions, `change` for all else."""

    codec = POSTGRES_CODEC

    def __init__(self, query_text: RunQuery, change: Change) -> None:
        super().__init__(query_text)
        self._change = change

    async def put_campaign(self, row: CampaignRow) -> bool:
        return bool(await self._change("put_campaign", *campaign_to_row(row, POSTGRES_CODEC)))

    async def claim_campaigns(self, now: datetime, until: datetime, limit: int) -> list[CampaignRow]:
        found = await self._change("claim_campaigns", now, until, limit)
        rows = sorted(found, key=lambda row: (row[-1], row[0]))  # UPDATE … RETURNING gives them in any order
        return [campaign_from_row(values, POSTGRES_CODEC) for values in rows]

    async def save_campaign(self, row: CampaignRow, moves: Sequence[DeadLetterTransition] = ()) -> bool:
        columns = compact_columns(
            TRANSITION_WIDTH, (transition_to_row(move, POSTGRES_CODEC) for move in sort_by_job(moves))
        )
        return bool(
            await self._change(
                "save_campaign", row.campaign_id, *progress_to_row(row, POSTGRES_CODEC), *columns
            )
        )

"""Dead letters and campaigns in PostgreSQL: each change is one statement."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from warrener_store.arrays import short_arrays
from warrener_store.dead_letters import CampaignRow, Move
from warrener_store.letter_questions import Ask, LetterQuestions
from warrener_store.records.campaigns import (
    MOVE_COLUMNS,
    campaign_in,
    campaign_out,
    in_order,
    move_out,
    progress_out,
)
from warrener_store.records.form import NATIVE

Change = Callable[..., Awaitable[Sequence[Sequence[Any]]]]


class PostgresLetters(LetterQuestions):
    """Runs its statements as the state store does: `ask_text` for questions, `change` for all else."""

    form = NATIVE

    def __init__(self, ask_text: Ask, change: Change) -> None:
        super().__init__(ask_text)
        self._change = change

    async def put_campaign(self, row: CampaignRow) -> bool:
        return bool(await self._change("put_campaign", *campaign_out(row, NATIVE)))

    async def claim_campaigns(self, now: datetime, until: datetime, limit: int) -> list[CampaignRow]:
        found = await self._change("claim_campaigns", now, until, limit)
        rows = sorted(found, key=lambda row: (row[-1], row[0]))  # UPDATE … RETURNING gives them in any order
        return [campaign_in(values, NATIVE) for values in rows]

    async def save_campaign(self, row: CampaignRow, moves: Sequence[Move] = ()) -> bool:
        told = short_arrays(MOVE_COLUMNS, (move_out(move, NATIVE) for move in in_order(moves)))
        return bool(await self._change("save_campaign", row.campaign_id, *progress_out(row, NATIVE), *told))

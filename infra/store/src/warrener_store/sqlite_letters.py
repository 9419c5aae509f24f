"""Dead letters and campaigns in a SQLite file: a batch is one transaction, as everywhere there."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime

from warrener_store.dead_letters import CampaignRow, Move
from warrener_store.encoding import encode
from warrener_store.letter_questions import Ask, LetterQuestions
from warrener_store.records.campaigns import campaign_in, campaign_out, in_order, move_out, progress_out
from warrener_store.records.form import TEXTUAL
from warrener_store.sql import statement
from warrener_store.sqlite_transaction import Transaction


class SqliteLetters(LetterQuestions):
    """Reads and writes as the state store does."""

    form = TEXTUAL

    def __init__(
        self, ask_text: Ask, writing: Callable[[], AbstractAsyncContextManager[Transaction]]
    ) -> None:
        super().__init__(ask_text)
        self._writing = writing

    async def put_campaign(self, row: CampaignRow) -> bool:
        async with self._writing() as transaction:
            return bool(await transaction.ask("put_campaign", *campaign_out(row, TEXTUAL)))

    async def claim_campaigns(self, now: datetime, until: datetime, limit: int) -> list[CampaignRow]:
        due = (TEXTUAL.moment_out(now), limit)
        if not await self._ask_text(statement("sqlite", "due_campaigns"), due):
            return []  # most looks find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = [campaign_in(values, TEXTUAL) for values in await transaction.ask("due_campaigns", *due)]
            ids = encode([str(row.campaign_id) for row in found])
            await transaction.run("claim_campaigns", [(ids, TEXTUAL.moment_out(until))])
        return [replace(row, version=row.version + 1, wake_at=until) for row in found]

    async def save_campaign(self, row: CampaignRow, moves: Sequence[Move] = ()) -> bool:
        campaign_id = str(row.campaign_id)
        async with self._writing() as transaction:
            counted = await transaction.ask("save_campaign", *progress_out(row, TEXTUAL), campaign_id)
            if counted:
                told = (move_out(move, TEXTUAL) for move in in_order(moves))
                await transaction.run("move_letter", ((*values, campaign_id) for values in told))
        return bool(counted)

"""What both databases are asked about dead letters and campaigns, in the same words."""

from abc import ABC
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.dead_letter_queries import (
    Statement,
    counts_query,
    dead_letters_query,
    groups_query,
    redrive_outcomes_query,
    redriven_query,
    succeeded_query,
)
from warrener_store.dead_letters import (
    CampaignRow,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterStore,
    RedriveOutcome,
    SuccessfulRequest,
)
from warrener_store.encoding import unescape
from warrener_store.records.campaigns import CAMPAIGN_COLUMNS, campaign_from_row
from warrener_store.records.codec import ColumnCodec
from warrener_store.records.outcomes import DEAD_LETTER_COLUMNS, dead_letter_from_row
from warrener_store.rows import DeadLetter, DeadLetterState

RunQuery = Callable[[str, Sequence[Any]], Awaitable[Sequence[Sequence[Any]]]]

_CAMPAIGN = ", ".join(CAMPAIGN_COLUMNS)


class DeadLetterReads(DeadLetterStore, ABC):
    """The questions of the port; a database adds how a statement is run, in what form it gives values, and
    the changes."""

    codec: ColumnCodec

    def __init__(self, query_text: RunQuery) -> None:
        self._query_text = query_text

    async def list_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        found = await self._run(dead_letters_query(which, self.codec))
        return [dead_letter_from_row(values, self.codec) for values in found]

    async def count_dead_letters(self, which: DeadLetterFilter) -> dict[DeadLetterState, int]:
        found = await self._run(counts_query(which, self.codec))
        return {DeadLetterState(state): dead_letters for state, dead_letters in found}

    async def group_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetterGroup]:
        codec = self.codec
        found = await self._run(groups_query(which, codec))
        ids = tuple(codec.decode_id(row[5]) for row in found)
        states = tuple(DeadLetterState)  # an example may have moved on meanwhile
        shown = DeadLetterFilter(states=states, job_ids=ids, limit=len(ids)) if ids else None
        examples = {
            dead_letter.job_id: dead_letter
            for dead_letter in (await self.list_dead_letters(shown) if shown else ())
        }
        return [
            DeadLetterGroup(
                fingerprint=row[0],
                job_type=unescape(row[1]),
                dead_letters=row[2],
                first_died_at=codec.decode_moment(row[3]),
                last_died_at=codec.decode_moment(row[4]),
                example=examples[codec.decode_id(row[5])],
            )
            for row in found
            if codec.decode_id(row[5]) in examples
        ]

    async def redriven_as(self, job_ids: Collection[UUID]) -> dict[UUID, DeadLetter]:
        if not job_ids:
            return {}
        found = await self._run(redriven_query(list(job_ids), self.codec))
        dead_letters = (dead_letter_from_row(values, self.codec) for values in found)
        return {
            dead_letter.redriven_as: dead_letter
            for dead_letter in dead_letters
            if dead_letter.redriven_as is not None
        }

    async def redrive_outcomes(
        self, campaign_id: UUID, requested_before: datetime, limit: int
    ) -> list[RedriveOutcome]:
        width = len(DEAD_LETTER_COLUMNS)
        found = await self._run(redrive_outcomes_query(campaign_id, requested_before, limit, self.codec))
        return [
            RedriveOutcome(
                dead_letter=dead_letter_from_row(values[:width], self.codec),
                state=None if values[width] is None else JobState(values[width]),
                fingerprint=values[width + 1],
            )
            for values in found
        ]

    async def succeeded_since(
        self, requests: Collection[str], job_types: Collection[str], since: datetime
    ) -> list[SuccessfulRequest]:
        if not requests or not job_types:
            return []
        codec = self.codec
        found = await self._run(succeeded_query(list(requests), list(job_types), since, codec))
        return [
            SuccessfulRequest(
                codec.decode_id(job_id), unescape(job_type), request, codec.decode_moment(accepted_at)
            )
            for job_id, job_type, request, accepted_at in found
        ]

    async def campaigns(self, ids: Collection[UUID] = (), limit: int = 50) -> list[CampaignRow]:
        parameters = (limit, *map(self.codec.encode_id, ids))
        named = ", ".join(f"${place}" for place in range(2, len(parameters) + 1))
        where = f"WHERE campaign_id IN ({named})" if named else ""
        text = (
            f"SELECT {_CAMPAIGN} FROM warrener_campaigns {where} "  # noqa: S608 - made of constants alone
            "ORDER BY asked_at DESC, campaign_id DESC LIMIT $1"
        )
        return [campaign_from_row(values, self.codec) for values in await self._run((text, parameters))]

    async def _run(self, statement: Statement) -> Sequence[Sequence[Any]]:
        return await self._query_text(*statement)

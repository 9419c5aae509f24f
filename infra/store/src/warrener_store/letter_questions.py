"""What both databases are asked about dead letters and campaigns, in the same words."""

from abc import ABC
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_contracts.states import JobState
from warrener_store.dead_letters import (
    CampaignRow,
    DeadLetters,
    Heir,
    LetterFilter,
    LetterGroup,
    Succeeded,
)
from warrener_store.encoding import unescape
from warrener_store.letter_listing import (
    Statement,
    counts_text,
    groups_text,
    heirs_text,
    letters_text,
    redriven_text,
    succeeded_text,
)
from warrener_store.records.campaigns import CAMPAIGN_COLUMNS, campaign_in
from warrener_store.records.ends import LETTER_COLUMNS, dead_letter_in
from warrener_store.records.form import Form
from warrener_store.rows import DeadLetter, LetterState

Ask = Callable[[str, Sequence[Any]], Awaitable[Sequence[Sequence[Any]]]]

_CAMPAIGN = ", ".join(CAMPAIGN_COLUMNS)


class LetterQuestions(DeadLetters, ABC):
    """The questions of the port; a database adds how a statement is run, in what form it gives values, and
    the changes."""

    form: Form

    def __init__(self, ask_text: Ask) -> None:
        self._ask_text = ask_text

    async def letters(self, which: LetterFilter) -> list[DeadLetter]:
        found = await self._run(letters_text(which, self.form))
        return [dead_letter_in(values, self.form) for values in found]

    async def count_letters(self, which: LetterFilter) -> dict[LetterState, int]:
        found = await self._run(counts_text(which, self.form))
        return {LetterState(state): letters for state, letters in found}

    async def groups(self, which: LetterFilter) -> list[LetterGroup]:
        form = self.form
        found = await self._run(groups_text(which, form))
        ids = tuple(form.id_in(row[5]) for row in found)
        states = tuple(LetterState)  # an example may have moved on meanwhile
        shown = LetterFilter(states=states, job_ids=ids, limit=len(ids)) if ids else None
        examples = {letter.job_id: letter for letter in (await self.letters(shown) if shown else ())}
        return [
            LetterGroup(
                fingerprint=row[0],
                job_type=unescape(row[1]),
                letters=row[2],
                first_died_at=form.moment_in(row[3]),
                last_died_at=form.moment_in(row[4]),
                example=examples[form.id_in(row[5])],
            )
            for row in found
            if form.id_in(row[5]) in examples
        ]

    async def redriven_as(self, job_ids: Collection[UUID]) -> dict[UUID, DeadLetter]:
        if not job_ids:
            return {}
        found = await self._run(redriven_text(list(job_ids), self.form))
        letters = (dead_letter_in(values, self.form) for values in found)
        return {letter.redriven_as: letter for letter in letters if letter.redriven_as is not None}

    async def heirs(self, campaign_id: UUID, unheard_before: datetime, limit: int) -> list[Heir]:
        width = len(LETTER_COLUMNS)
        found = await self._run(heirs_text(campaign_id, unheard_before, limit, self.form))
        return [
            Heir(
                letter=dead_letter_in(values[:width], self.form),
                state=None if values[width] is None else JobState(values[width]),
                fingerprint=values[width + 1],
            )
            for values in found
        ]

    async def succeeded_since(
        self, requests: Collection[str], job_types: Collection[str], since: datetime
    ) -> list[Succeeded]:
        if not requests or not job_types:
            return []
        form = self.form
        found = await self._run(succeeded_text(list(requests), list(job_types), since, form))
        return [
            Succeeded(form.id_in(job_id), unescape(job_type), request, form.moment_in(accepted_at))
            for job_id, job_type, request, accepted_at in found
        ]

    async def campaigns(self, ids: Collection[UUID] = (), limit: int = 50) -> list[CampaignRow]:
        parameters = (limit, *map(self.form.id_out, ids))
        named = ", ".join(f"${place}" for place in range(2, len(parameters) + 1))
        where = f"WHERE campaign_id IN ({named})" if named else ""
        text = (
            f"SELECT {_CAMPAIGN} FROM warrener_campaigns {where} "  # noqa: S608 - made of constants alone
            "ORDER BY asked_at DESC, campaign_id DESC LIMIT $1"
        )
        return [campaign_in(values, self.form) for values in await self._run((text, parameters))]

    async def _run(self, statement: Statement) -> Sequence[Sequence[Any]]:
        return await self._ask_text(*statement)

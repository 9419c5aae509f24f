"""Dead letters and campaigns in memory, beside the jobs of the store that keeps them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from warrener_contracts.states import JobState
from warrener_store.dead_letters import (
    CampaignRow,
    DeadLetters,
    Heir,
    LetterFilter,
    LetterGroup,
    Move,
    Place,
    Succeeded,
)
from warrener_store.rows import DeadLetter, JobRow, LetterState


class MemoryLetters(DeadLetters):
    """The letters are those of the store, by job."""

    def __init__(self, letters: dict[UUID, DeadLetter], jobs: Mapping[UUID, JobRow]) -> None:
        self._letters = letters
        self._jobs = jobs
        self._campaigns: dict[UUID, CampaignRow] = {}

    @property
    def rows(self) -> Mapping[UUID, CampaignRow]:
        """All campaigns."""
        return self._campaigns

    def drop(self, campaign_ids: Collection[UUID]) -> None:
        """Forget these campaigns."""
        for campaign_id in campaign_ids:
            del self._campaigns[campaign_id]

    async def letters(self, which: LetterFilter) -> list[DeadLetter]:
        return self._listed(which)[: which.limit]

    async def count_letters(self, which: LetterFilter) -> dict[LetterState, int]:
        return dict(Counter(letter.state for letter in self._listed(which)))

    async def groups(self, which: LetterFilter) -> list[LetterGroup]:
        causes: dict[tuple[str, str], list[DeadLetter]] = {}
        for letter in sorted(self._listed(which), key=_place, reverse=True):
            causes.setdefault((letter.fingerprint, letter.job_type), []).append(letter)
        groups = [
            LetterGroup(
                fingerprint=fingerprint,
                job_type=job_type,
                letters=len(found),
                first_died_at=found[-1].died_at,
                last_died_at=found[0].died_at,
                example=found[0],
            )
            for (fingerprint, job_type), found in causes.items()
        ]
        return groups[: which.limit]

    async def redriven_as(self, job_ids: Collection[UUID]) -> dict[UUID, DeadLetter]:
        return {
            letter.redriven_as: letter
            for letter in self._letters.values()
            if letter.redriven_as is not None and letter.redriven_as in job_ids
        }

    async def heirs(self, campaign_id: UUID, unheard_before: datetime, limit: int) -> list[Heir]:
        which = LetterFilter(states=(LetterState.ASKED,), campaign_id=campaign_id, oldest_first=True)
        found: list[Heir] = []
        for letter in self._listed(which):
            job = None if letter.redriven_as is None else self._jobs.get(letter.redriven_as)
            if job is None and letter.asked_at is not None and letter.asked_at <= unheard_before:
                found.append(Heir(letter=letter, state=None, fingerprint=None))
            if job is not None and job.state.terminal:
                died = self._letters.get(job.job_id)
                found.append(
                    Heir(letter=letter, state=job.state, fingerprint=died.fingerprint if died else None)
                )
        return found[:limit]

    async def succeeded_since(
        self, requests: Collection[str], job_types: Collection[str], since: datetime
    ) -> list[Succeeded]:
        return [
            Succeeded(job.job_id, job.job_type, job.fingerprint, job.accepted_at)
            for job in self._jobs.values()
            if job.state is JobState.SUCCEEDED
            and job.job_type in job_types
            and job.accepted_at > since
            and job.fingerprint in requests
        ]

    async def put_campaign(self, row: CampaignRow) -> bool:
        new = row.campaign_id not in self._campaigns
        self._campaigns.setdefault(row.campaign_id, row)
        return new

    async def campaigns(self, ids: Collection[UUID] = (), limit: int = 50) -> list[CampaignRow]:
        rows = [row for row in self._campaigns.values() if not ids or row.campaign_id in ids]
        return sorted(rows, key=lambda row: (row.asked_at, row.campaign_id), reverse=True)[:limit]

    async def claim_campaigns(self, now: datetime, until: datetime, limit: int) -> list[CampaignRow]:
        due = [(row.wake_at, row.campaign_id) for row in self._campaigns.values() if row.wake_at is not None]
        claimed: list[CampaignRow] = []
        for _, campaign_id in sorted(place for place in due if place[0] <= now)[:limit]:
            row = self._campaigns[campaign_id]
            self._campaigns[campaign_id] = row = replace(row, wake_at=until, version=row.version + 1)
            claimed.append(row)
        return claimed

    async def save_campaign(self, row: CampaignRow, moves: Sequence[Move] = ()) -> bool:
        held = self._campaigns.get(row.campaign_id)
        if held is None or held.version != row.version - 1:
            return False
        self._campaigns[row.campaign_id] = row
        for move in moves:
            letter = self._letters[move.letter.job_id]
            free = letter.state.unresolved or letter.campaign_id == row.campaign_id
            if letter.state is move.held and free:
                self._letters[letter.job_id] = move.letter
        return True

    def _listed(self, which: LetterFilter) -> list[DeadLetter]:
        chosen = [letter for letter in self._letters.values() if _matches(letter, which)]
        return sorted(chosen, key=_place, reverse=not which.oldest_first)


def _place(letter: DeadLetter) -> Place:
    return letter.died_at, letter.job_id


def _matches(letter: DeadLetter, which: LetterFilter) -> bool:
    return (
        (not which.states or letter.state in which.states)
        and (not which.job_ids or letter.job_id in which.job_ids)
        and which.fingerprint in (None, letter.fingerprint)
        and which.job_type in (None, letter.job_type)
        and (which.died_after is None or letter.died_at >= which.died_after)
        and (which.died_before is None or letter.died_at < which.died_before)
        and which.campaign_id in (None, letter.campaign_id)
        and (which.not_by is None or letter.campaign_id != which.not_by)
        and (which.after is None or _follows(letter, which.after, oldest_first=which.oldest_first))
    )


def _follows(letter: DeadLetter, place: Place, *, oldest_first: bool) -> bool:
    return _place(letter) > place if oldest_first else _place(letter) < place

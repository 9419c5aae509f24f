"""Dead letters and campaigns in memory, beside the jobs of the store."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.port import DeadLetterStore
from warrener_store.dead_letters.rows import (
    CampaignRow,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterPosition,
    DeadLetterState,
    DeadLetterTransition,
    RedriveOutcome,
    SuccessfulRequest,
)
from warrener_store.jobs.rows import JobRow


class MemoryDeadLetters(DeadLetterStore):
    """Shares the dead letters, by job, with the store."""

    def __init__(self, dead_letters: dict[UUID, DeadLetter], jobs: Mapping[UUID, JobRow]) -> None:
        self._dead_letters = dead_letters
        self._jobs = jobs
        self._campaigns: dict[UUID, CampaignRow] = {}

    @property
    def rows(self) -> Mapping[UUID, CampaignRow]:
        """All campaigns."""
        return self._campaigns

    def drop(self, campaign_ids: Collection[UUID]) -> None:
        """Delete these campaigns."""
        for campaign_id in campaign_ids:
            del self._campaigns[campaign_id]

    async def list_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        return self._listed(which)[: which.limit]

    async def count_dead_letters(self, which: DeadLetterFilter) -> dict[DeadLetterState, int]:
        return dict(Counter(dead_letter.state for dead_letter in self._listed(which)))

    async def group_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetterGroup]:
        causes: dict[tuple[str, str], list[DeadLetter]] = {}
        for dead_letter in sorted(self._listed(which), key=_place, reverse=True):
            causes.setdefault((dead_letter.fingerprint, dead_letter.job_type), []).append(dead_letter)
        groups = [
            DeadLetterGroup(
                fingerprint=fingerprint,
                job_type=job_type,
                dead_letters=len(found),
                first_died_at=found[-1].died_at,
                last_died_at=found[0].died_at,
                example=found[0],
            )
            for (fingerprint, job_type), found in causes.items()
        ]
        return groups[: which.limit]

    async def redriven_as(self, job_ids: Collection[UUID]) -> dict[UUID, DeadLetter]:
        return {
            dead_letter.redriven_as: dead_letter
            for dead_letter in self._dead_letters.values()
            if dead_letter.redriven_as is not None and dead_letter.redriven_as in job_ids
        }

    async def redrive_outcomes(
        self, campaign_id: UUID, requested_before: datetime, limit: int
    ) -> list[RedriveOutcome]:
        which = DeadLetterFilter(
            states=(DeadLetterState.REQUEUED,), campaign_id=campaign_id, oldest_first=True
        )
        found: list[RedriveOutcome] = []
        for dead_letter in self._listed(which):
            job = None if dead_letter.redriven_as is None else self._jobs.get(dead_letter.redriven_as)
            if job is None and dead_letter.asked_at is not None and dead_letter.asked_at <= requested_before:
                found.append(RedriveOutcome(dead_letter=dead_letter, state=None, fingerprint=None))
            if job is not None and job.state.terminal:
                died = self._dead_letters.get(job.job_id)
                found.append(
                    RedriveOutcome(
                        dead_letter=dead_letter,
                        state=job.state,
                        fingerprint=died.fingerprint if died else None,
                    )
                )
        return found[:limit]

    async def succeeded_since(
        self, requests: Collection[str], job_types: Collection[str], since: datetime
    ) -> list[SuccessfulRequest]:
        return [
            SuccessfulRequest(job.job_id, job.job_type, job.fingerprint, job.accepted_at)
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

    async def save_campaign(self, row: CampaignRow, moves: Sequence[DeadLetterTransition] = ()) -> bool:
        held = self._campaigns.get(row.campaign_id)
        if held is None or held.version != row.version - 1:
            return False
        self._campaigns[row.campaign_id] = row
        for move in moves:
            dead_letter = self._dead_letters[move.dead_letter.job_id]
            free = dead_letter.state.unresolved or dead_letter.campaign_id == row.campaign_id
            if dead_letter.state is move.from_state and free:
                self._dead_letters[dead_letter.job_id] = move.dead_letter
        return True

    def _listed(self, which: DeadLetterFilter) -> list[DeadLetter]:
        chosen = [dead_letter for dead_letter in self._dead_letters.values() if _matches(dead_letter, which)]
        return sorted(chosen, key=_place, reverse=not which.oldest_first)


def _place(dead_letter: DeadLetter) -> DeadLetterPosition:
    return dead_letter.died_at, dead_letter.job_id


def _matches(dead_letter: DeadLetter, which: DeadLetterFilter) -> bool:
    return (
        (not which.states or dead_letter.state in which.states)
        and (not which.job_ids or dead_letter.job_id in which.job_ids)
        and which.fingerprint in (None, dead_letter.fingerprint)
        and which.job_type in (None, dead_letter.job_type)
        and (which.died_after is None or dead_letter.died_at >= which.died_after)
        and (which.died_before is None or dead_letter.died_at < which.died_before)
        and which.campaign_id in (None, dead_letter.campaign_id)
        and (which.not_by is None or dead_letter.campaign_id != which.not_by)
        and (which.after is None or _follows(dead_letter, which.after, oldest_first=which.oldest_first))
    )


def _follows(dead_letter: DeadLetter, place: DeadLetterPosition, *, oldest_first: bool) -> bool:
    return _place(dead_letter) > place if oldest_first else _place(dead_letter) < place

"""Dead letters and redrives in memory, beside the jobs of the store."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.port import DeadLetterStore
from warrener_store.dead_letters.rows import (
    MAX_COUNTED_DEATHS,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterPosition,
    DeadLetterState,
    DeadLetterTransition,
    RedriveOutcome,
    RedriveRow,
    SuccessfulRequest,
    UnresolvedCause,
)
from warrener_store.jobs.rows import JobRow


class MemoryDeadLetters(DeadLetterStore):
    """Shares the dead letters, by job, with the store."""

    def __init__(self, dead_letters: dict[UUID, DeadLetter], jobs: Mapping[UUID, JobRow]) -> None:
        self._dead_letters = dead_letters
        self._jobs = jobs
        self._redrives: dict[UUID, RedriveRow] = {}

    @property
    def rows(self) -> Mapping[UUID, RedriveRow]:
        """All redrives."""
        return self._redrives

    def drop(self, redrive_ids: Collection[UUID]) -> None:
        """Delete these redrives."""
        for redrive_id in redrive_ids:
            del self._redrives[redrive_id]

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

    async def unresolved_causes(
        self, since: datetime, limit: int, *, fingerprint: str | None = None, job_type: str | None = None
    ) -> list[UnresolvedCause]:
        which = DeadLetterFilter(fingerprint=fingerprint)
        causes: dict[str, list[DeadLetter]] = {}
        for dead_letter in sorted(self._listed(which), key=_place, reverse=True):
            causes.setdefault(dead_letter.fingerprint, []).append(dead_letter)
        found = [
            UnresolvedCause(
                fingerprint=name,
                dead_letters=min(len(dead_letters), MAX_COUNTED_DEATHS),
                first_died_at=dead_letters[-1].died_at,
                example=dead_letters[0],
                deaths=Counter(
                    one.died_at.replace(minute=0, second=0, microsecond=0)
                    for one in dead_letters
                    if one.died_at >= since
                ),
            )
            for name, dead_letters in causes.items()
        ]
        return [cause for cause in found if job_type in (None, cause.example.job_type)][:limit]

    async def redrive_outcomes(
        self, redrive_id: UUID, requested_before: datetime, limit: int
    ) -> list[RedriveOutcome]:
        which = DeadLetterFilter(states=(DeadLetterState.REDRIVEN,), redrive_id=redrive_id, oldest_first=True)
        found: list[RedriveOutcome] = []
        for dead_letter in self._listed(which):
            job = None if dead_letter.redriven_as is None else self._jobs.get(dead_letter.redriven_as)
            if (
                job is None
                and dead_letter.redriven_at is not None
                and dead_letter.redriven_at <= requested_before
            ):
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
            SuccessfulRequest(job.job_id, job.job_type, job.request_hash, job.accepted_at)
            for job in self._jobs.values()
            if job.state is JobState.SUCCEEDED
            and job.job_type in job_types
            and job.accepted_at > since
            and job.request_hash in requests
        ]

    async def redrives(self, ids: Collection[UUID] = (), limit: int = 50) -> list[RedriveRow]:
        rows = [row for row in self._redrives.values() if not ids or row.redrive_id in ids]
        return sorted(rows, key=lambda row: (row.requested_at, row.redrive_id), reverse=True)[:limit]

    async def claim_redrives(self, now: datetime, until: datetime, limit: int) -> list[RedriveRow]:
        due = [(row.wake_at, row.redrive_id) for row in self._redrives.values() if row.wake_at is not None]
        claimed: list[RedriveRow] = []
        for _, redrive_id in sorted(place for place in due if place[0] <= now)[:limit]:
            row = self._redrives[redrive_id]
            self._redrives[redrive_id] = row = replace(row, wake_at=until, version=row.version + 1)
            claimed.append(row)
        return claimed

    async def save_redrive(self, row: RedriveRow, moves: Sequence[DeadLetterTransition] = ()) -> bool:
        held = self._redrives.get(row.redrive_id)
        if row.version != (1 if held is None else held.version + 1):
            return False
        self._redrives[row.redrive_id] = row
        for move in moves if held is not None else ():
            dead_letter = self._dead_letters[move.dead_letter.job_id]
            free = dead_letter.state.unresolved or dead_letter.redrive_id == row.redrive_id
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
        and (not which.redriven_as or dead_letter.redriven_as in which.redriven_as)
        and which.fingerprint in (None, dead_letter.fingerprint)
        and which.job_type in (None, dead_letter.job_type)
        and (which.died_after is None or dead_letter.died_at >= which.died_after)
        and (which.died_before is None or dead_letter.died_at < which.died_before)
        and which.redrive_id in (None, dead_letter.redrive_id)
        and (which.not_by is None or dead_letter.redrive_id != which.not_by)
        and (which.after is None or _follows(dead_letter, which.after, oldest_first=which.oldest_first))
    )


def _follows(dead_letter: DeadLetter, place: DeadLetterPosition, *, oldest_first: bool) -> bool:
    return _place(dead_letter) > place if oldest_first else _place(dead_letter) < place

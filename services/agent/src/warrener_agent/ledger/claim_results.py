"""What the ledger answers to a claim, decided from what it found. Pure."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol, TypeVar
from uuid import UUID

from warrener_agent.ledger.checkpoints import SavedCheckpoint
from warrener_agent.ledger.port import Claim, ClaimResult, ClaimStatus, Completion, Failure

_NONE: Mapping[UUID, SavedCheckpoint] = MappingProxyType({})
GRANTED = ClaimResult(ClaimStatus.GRANTED)


class _JobRow(Protocol):
    @property
    def job_id(self) -> UUID: ...


R = TypeVar("R", bound=_JobRow)


@dataclass(frozen=True, slots=True)
class Found:
    """What stands in the ledger about a job that was not granted."""

    attempt: int
    cancelled: bool
    completion: Completion | None = None
    failure: Failure | None = None


def highest_attempts(claims: Sequence[Claim]) -> list[Claim]:
    """One claim a job: of several for one job, the one with the highest attempt. Sorted, so that two agents
    that claim the same jobs lock the rows in the same order."""
    best: dict[UUID, Claim] = {}
    for claim in claims:
        if claim.job_id not in best or best[claim.job_id].attempt < claim.attempt:
            best[claim.job_id] = claim
    return sort_by_job(best.values())


def sort_by_job(rows: Iterable[R]) -> list[R]:
    """By job. By the number of its id: two ids are compared in Python, two numbers are not."""
    return sorted(rows, key=lambda row: row.job_id.int)


def claim_results(
    claims: Sequence[Claim],
    granted: Set[Claim],
    found: Mapping[UUID, Found],
    checkpoints: Mapping[UUID, SavedCheckpoint] = _NONE,
    *,
    locked: Set[UUID] = frozenset(),
) -> list[ClaimResult]:
    """One answer for each claim, in order; `locked` are the jobs whose rows could not be claimed for that.

    What was neither granted nor explains itself is HELD: between the claim and the look at the row its holder
    may have let go, and looking again later is always safe.
    """
    if len(granted) == len(claims) and not checkpoints:  # one claim a job, and each has what it asked for
        return [GRANTED] * len(claims)
    now_at = {claim.job_id: claim.attempt for claim in granted}
    results = (_result(claim, now_at.get(claim.job_id), found.get(claim.job_id)) for claim in claims)
    return [
        _with_checkpoint(answer, checkpoints.get(claim.job_id), locked=claim.job_id in locked)
        for claim, answer in zip(claims, results, strict=True)
    ]


def _with_checkpoint(answer: ClaimResult, checkpoint: SavedCheckpoint | None, *, locked: bool) -> ClaimResult:
    if answer is GRANTED:
        return replace(answer, checkpoint=checkpoint)
    return replace(answer, locked=True) if locked and answer.status is ClaimStatus.HELD else answer


def _result(claim: Claim, granted: int | None, found: Found | None) -> ClaimResult:
    if granted is not None:
        return GRANTED if granted == claim.attempt else ClaimResult(ClaimStatus.SUPERSEDED)
    return ClaimResult(ClaimStatus.HELD) if found is None else _refusal(found, claim)


def _refusal(found: Found, claim: Claim) -> ClaimResult:
    if found.completion is not None:
        return ClaimResult(ClaimStatus.COMPLETED, found.completion)
    if found.cancelled:
        return ClaimResult(ClaimStatus.CANCELLED)
    if found.attempt > claim.attempt:
        return ClaimResult(ClaimStatus.SUPERSEDED)
    if found.failure is not None and found.attempt == claim.attempt:
        return ClaimResult(ClaimStatus.FAILED, failure=found.failure)
    return ClaimResult(ClaimStatus.HELD)

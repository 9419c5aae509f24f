"""What the ledger answers to a claim, decided from what it found. Pure."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from uuid import UUID

from warrener_agent.ledger.port import Claim, Completion, Failure, Grant, Granted


@dataclass(frozen=True, slots=True)
class Found:
    """What stands in the ledger about a job that was not granted."""

    attempt: int
    cancelled: bool
    completion: Completion | None = None
    failure: Failure | None = None


def highest(claims: Sequence[Claim]) -> list[Claim]:
    """One claim a job: of several for one job, the one with the highest attempt. Sorted, so that two agents
    that claim the same jobs lock the rows in the same order."""
    best: dict[UUID, Claim] = {}
    for claim in claims:
        if claim.job_id not in best or best[claim.job_id].attempt < claim.attempt:
            best[claim.job_id] = claim
    return sorted(best.values(), key=lambda claim: claim.job_id)


def answers(claims: Sequence[Claim], granted: Set[Claim], found: Mapping[UUID, Found]) -> list[Granted]:
    """One answer for each claim, in order.

    What was neither granted nor explains itself is HELD: between the claim and the look at the row its holder
    may have let go, and looking again later is always safe.
    """
    now_at = {claim.job_id: claim.attempt for claim in granted}
    return [_answer(claim, now_at.get(claim.job_id), found.get(claim.job_id)) for claim in claims]


def _answer(claim: Claim, granted: int | None, found: Found | None) -> Granted:
    if granted is not None:
        return Granted(Grant.GRANTED if granted == claim.attempt else Grant.SUPERSEDED)
    return Granted(Grant.HELD) if found is None else _of(found, claim)


def _of(found: Found, claim: Claim) -> Granted:
    if found.completion is not None:
        return Granted(Grant.COMPLETED, found.completion)
    if found.cancelled:
        return Granted(Grant.CANCELLED)
    if found.attempt > claim.attempt:
        return Granted(Grant.SUPERSEDED)
    if found.failure is not None:
        return Granted(Grant.FAILED, failure=found.failure)
    return Granted(Grant.HELD)

"""What the ledger answers to a claim, decided from what it found. Pure."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol, TypeVar
from uuid import UUID

from warrener_agent.ledger.checkpoints import Saved
from warrener_agent.ledger.port import Claim, Completion, Failure, Grant, Granted

_NONE: Mapping[UUID, Saved] = MappingProxyType({})
GRANTED = Granted(Grant.GRANTED)


class _OfJob(Protocol):
    @property
    def job_id(self) -> UUID: ...


R = TypeVar("R", bound=_OfJob)


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
    return in_order(best.values())


def in_order(rows: Iterable[R]) -> list[R]:
    """By job. By the number of its id: two ids are compared in Python, two numbers are not."""
    return sorted(rows, key=lambda row: row.job_id.int)


def answers(
    claims: Sequence[Claim],
    granted: Set[Claim],
    found: Mapping[UUID, Found],
    checkpoints: Mapping[UUID, Saved] = _NONE,
    *,
    locked: Set[UUID] = frozenset(),
) -> list[Granted]:
    """One answer for each claim, in order; `locked` are the jobs whose rows could not be claimed for that.

    What was neither granted nor explains itself is HELD: between the claim and the look at the row its holder
    may have let go, and looking again later is always safe.
    """
    if len(granted) == len(claims) and not checkpoints:  # one claim a job, and each has what it asked for
        return [GRANTED] * len(claims)
    now_at = {claim.job_id: claim.attempt for claim in granted}
    told = (_answer(claim, now_at.get(claim.job_id), found.get(claim.job_id)) for claim in claims)
    return [
        _completed_by(answer, checkpoints.get(claim.job_id), locked=claim.job_id in locked)
        for claim, answer in zip(claims, told, strict=True)
    ]


def _completed_by(answer: Granted, checkpoint: Saved | None, *, locked: bool) -> Granted:
    if answer is GRANTED:
        return replace(answer, checkpoint=checkpoint)
    return replace(answer, locked=True) if locked and answer.grant is Grant.HELD else answer


def _answer(claim: Claim, granted: int | None, found: Found | None) -> Granted:
    if granted is not None:
        return GRANTED if granted == claim.attempt else Granted(Grant.SUPERSEDED)
    return Granted(Grant.HELD) if found is None else _of(found, claim)


def _of(found: Found, claim: Claim) -> Granted:
    if found.completion is not None:
        return Granted(Grant.COMPLETED, found.completion)
    if found.cancelled:
        return Granted(Grant.CANCELLED)
    if found.attempt > claim.attempt:
        return Granted(Grant.SUPERSEDED)
    if found.failure is not None and found.attempt == claim.attempt:
        return Granted(Grant.FAILED, failure=found.failure)
    return Granted(Grant.HELD)

"""The rows of both engines' ledgers: their columns, and the answer to a claim that follows from them.

JSON stands in text columns: PostgreSQL's JSON type refuses an escaped NUL, and results are stored as written.
"""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from warrener_agent.ledger import port

GRANTED = port.ClaimResult(port.ClaimStatus.GRANTED)


R = TypeVar("R", port.Claim, port.Completion, port.Failure, port.SavedCheckpoint)


@dataclass(frozen=True, slots=True)
class Found:
    """The row of a job whose claim was not granted."""

    attempt: int
    cancelled: bool
    completion: port.Completion | None = None
    failure: port.Failure | None = None


def highest_attempts(claims: Sequence[port.Claim]) -> list[port.Claim]:
    """Return one claim a job, the one with the highest attempt.

    They are sorted, so that two agents that claim the same jobs lock the rows in the same order.
    """
    best: dict[UUID, port.Claim] = {}
    for claim in claims:
        if claim.job_id not in best or best[claim.job_id].attempt < claim.attempt:
            best[claim.job_id] = claim
    return sort_by_job(best.values())


def sort_by_job(rows: Iterable[R]) -> list[R]:
    """Sort by the number of the job's id: ids are compared in Python, numbers are not."""
    return sorted(rows, key=lambda row: row.job_id.int)


def claim_results(
    claims: Sequence[port.Claim],
    granted: Mapping[port.Claim, port.SavedCheckpoint | None],
    found: Mapping[UUID, Found],
    *,
    locked: Set[UUID] = frozenset(),
) -> list[port.ClaimResult]:
    """Return one answer for each claim, in order; `locked`: jobs that could not be claimed for their lock.

    A claim that was not granted, though its row does not refuse it, is HELD: the holder may have released it
    between the claim and the read of the row, and claiming again later is always safe.
    """
    if len(granted) == len(claims) and not any(granted.values()):  # one claim a job, and each was granted
        return [GRANTED] * len(claims)
    jobs = {claim.job_id for claim in granted}

    def answer(claim: port.Claim) -> port.ClaimResult:
        if claim in granted:
            return port.ClaimResult(port.ClaimStatus.GRANTED, checkpoint=granted[claim])
        if claim.job_id in jobs:
            return port.ClaimResult(port.ClaimStatus.SUPERSEDED)
        return _refusal(claim, found.get(claim.job_id), locked=claim.job_id in locked)

    return [answer(claim) for claim in claims]


def _refusal(claim: port.Claim, found: Found | None, *, locked: bool) -> port.ClaimResult:
    if found is None:
        return port.ClaimResult(port.ClaimStatus.HELD, locked=locked)
    if found.completion is not None:
        return port.ClaimResult(port.ClaimStatus.COMPLETED, found.completion)
    if found.failure is not None and found.attempt == claim.attempt:
        # Before a cancel that came later: messages of a suspension may be out already, and with them children
        # of which the supervisor learns from its report alone.
        return port.ClaimResult(port.ClaimStatus.FAILED, failure=found.failure)
    if found.cancelled:
        return port.ClaimResult(port.ClaimStatus.CANCELLED)
    if found.attempt > claim.attempt:
        return port.ClaimResult(port.ClaimStatus.SUPERSEDED)
    return port.ClaimResult(port.ClaimStatus.HELD, locked=locked)


def encode_child_jobs(child_jobs: Sequence[port.ChildJobRequest]) -> str:
    """Encode child jobs as a column."""
    if not child_jobs:
        return "[]"
    return json.dumps([[one.key, one.request.decode()] for one in child_jobs], separators=(",", ":"))


def encode_failure(failure: port.Failure) -> str:
    """Encode a failure as a column."""
    details = [failure.details, failure.started_at.isoformat(), failure.finished_at.isoformat()]
    return json.dumps(details, separators=(",", ":"))


def decode_failure(claim: port.Claim, column: str | None) -> port.Failure | None:
    """Decode the failure of a row's attempt, if it has failed."""
    if column is None:
        return None
    details, *times = json.loads(column)
    return port.Failure(*claim, details, *map(datetime.fromisoformat, times))


def decode_child_jobs(column: str) -> tuple[port.ChildJobRequest, ...]:
    """Decode the column of child jobs."""
    return tuple(port.ChildJobRequest(key, request.encode()) for key, request in json.loads(column))


def decode_checkpoint(job_id: UUID, attempt: int, text: str | None) -> port.SavedCheckpoint | None:
    """Decode the checkpoint of a claim's answer (number, blank, state), for the attempt that goes on."""
    if text is None:
        return None
    number, _, state = text.partition(" ")
    return port.SavedCheckpoint(job_id, attempt, int(number), state)

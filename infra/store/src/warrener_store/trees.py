"""Cancelled trees: what keeps a job's follow-ups from going on once it was cancelled with all of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledTree:
    """A job whose follow-ups are cancelled, those that there are and those that are still to come."""

    job_id: UUID
    reason: str  # as each of its follow-ups is given it
    cancelled_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildJob:
    """A follow-up, as far as a walk through its tree has to know it."""

    job_id: UUID
    parent_id: UUID
    over: bool


class CancelledTrees(Protocol):
    """Which trees are cancelled, kept by the engine of the StateStore
    (`tests/conformance/test_store_trees.py`).

    Who inserts a follow-up looks at its parent's mark afterwards, and who marks a job looks for its
    follow-ups afterwards: whichever comes first, one of the two sees the other, and nothing slips through.
    """

    async def mark_cancelled(self, trees: Sequence[CancelledTree]) -> None:
        """Mark these; what is marked already stays as it is. The jobs must be there."""
        ...

    async def cancelled_among(self, job_ids: Collection[UUID]) -> dict[UUID, CancelledTree]:
        """Those of these jobs that are marked."""
        ...

    async def children_of(self, parents: Collection[UUID]) -> list[ChildJob]:
        """All jobs that these have asked for, in no order."""
        ...

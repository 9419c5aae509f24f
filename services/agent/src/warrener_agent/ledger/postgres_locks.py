"""Batches among rows that somebody else has locked: the others are changed, and those are named."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

import asyncpg

from warrener_agent.ledger.postgres_sql import LOCKED

if TYPE_CHECKING:
    Records = list[asyncpg.Record]


class _LockableRow(Protocol):
    @property
    def job_id(self) -> UUID: ...


R = TypeVar("R", bound=_LockableRow)


class LockTolerantBatches:
    """Runs a statement for a batch, or where that waits too long for a row, for the rows that are free.

    A batch costs nothing more while nothing is locked. A row that was found locked is looked at before the
    next batch that names it, so that its lock is waited for once and not by every batch.
    """

    def __init__(self, fetch: "Callable[[str, list[UUID]], Awaitable[Records]]") -> None:
        self._fetch = fetch
        self._suspects: set[UUID] = set()

    async def run(
        self, batch: Sequence[R], work: "Callable[[Sequence[R]], Awaitable[Records]]"
    ) -> "tuple[Records, set[UUID]]":
        """The rows that `work` gives, and the jobs that were left out because their rows are locked."""
        locked: set[UUID] = set()
        if self._suspects and any(one.job_id in self._suspects for one in batch):
            batch, locked = await self._free(batch)
        try:
            return await _unless_empty(batch, work), locked
        except asyncpg.LockNotAvailableError:
            batch, more = await self._free(batch)
        locked |= more
        try:
            return await _unless_empty(batch, work), locked
        except asyncpg.LockNotAvailableError:  # locked since, or a row that only its inserter can see
            rows, more = await self._one_by_one(batch, work)
        return rows, locked | more

    async def _free(self, batch: Sequence[R]) -> tuple[list[R], set[UUID]]:
        job_ids = {one.job_id for one in batch}
        locked = {row["job_id"] for row in await self._fetch(LOCKED, list(job_ids))}
        self._suspects = (self._suspects - job_ids) | locked
        return [one for one in batch if one.job_id not in locked], locked

    async def _one_by_one(
        self, batch: Sequence[R], work: "Callable[[Sequence[R]], Awaitable[Records]]"
    ) -> "tuple[Records, set[UUID]]":
        rows: Records = []
        locked: set[UUID] = set()
        for one in batch:
            try:
                rows += await work([one])
            except asyncpg.LockNotAvailableError:
                locked.add(one.job_id)
        return rows, locked


async def _unless_empty(batch: Sequence[R], work: "Callable[[Sequence[R]], Awaitable[Records]]") -> "Records":
    return await work(batch) if batch else []

"""A ledger in memory: the port's rules in their plainest form, without threads, so that virtual time can
drive it.

It follows the rules of `tests/conformance/test_ledger*.py` as far as they do not need SQL: a statement is an
effect by name.
"""

import json
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from typing import Any
from uuid import UUID

from warrener_agent.ledger import (
    Claim,
    ClaimResult,
    ClaimStatus,
    Completion,
    DeletedRows,
    Failure,
    Renewal,
    SavedCheckpoint,
)
from warrener_agent.ledger.port import HOLDER_MARK, PROCESS_MARK, LedgerUnavailable
from warrener_agent.ledger.rows import highest_attempts
from warrener_runtime.clock import Clock, SystemClock


@dataclass(slots=True)
class Entry:
    """One job: the highest attempt claimed, who holds it until when, and its end."""

    attempt: int = 0
    next_attempt: int | None = None  # waits until this one is let go or its lease has ended
    holder: str | None = None
    until: datetime | None = None
    cancelled: bool = False
    completion: Completion | None = None
    failure: Failure | None = None
    checkpoint: SavedCheckpoint | None = None


class MemoryLedger:
    """Shared by all agents of a simulation."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.entries: dict[UUID, Entry] = {}
        self.effects: list[tuple[UUID, str]] = []
        self.away = False

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> None:
        self.answer()

    def answer(self) -> None:
        if self.away:
            raise LedgerUnavailable("expected a database, got none")

    async def time(self) -> datetime:
        return self._clock.now()

    async def claim(self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta) -> list[ClaimResult]:
        self.answer()
        now = self._clock.now()
        until = now + lease
        wanted = {claim: self._claim(claim, agent_id, now, until) for claim in highest_attempts(claims)}
        return [wanted.get(claim) or self._claim(claim, agent_id, now, until) for claim in claims]

    def _claim(self, claim: Claim, agent_id: str, now: datetime, until: datetime) -> ClaimResult:
        entry = self.entries.setdefault(claim.job_id, Entry())
        if entry.completion is not None:
            return ClaimResult(ClaimStatus.COMPLETED, entry.completion)
        if entry.cancelled:
            return ClaimResult(ClaimStatus.CANCELLED)
        if claim.attempt < (entry.next_attempt or entry.attempt):
            return ClaimResult(ClaimStatus.SUPERSEDED if claim.attempt < entry.attempt else ClaimStatus.HELD)
        if claim.attempt == entry.attempt and entry.failure is not None:
            return ClaimResult(ClaimStatus.FAILED, failure=entry.failure)
        free = entry.holder in (None, agent_id) or entry.until is None or entry.until <= now
        if not free:
            if claim.attempt > entry.attempt:
                entry.next_attempt = claim.attempt
            return ClaimResult(ClaimStatus.HELD)
        entry.attempt, entry.holder, entry.until, entry.failure = claim.attempt, agent_id, until, None
        entry.next_attempt = None
        return ClaimResult(ClaimStatus.GRANTED, checkpoint=entry.checkpoint)

    async def renew(
        self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta, even_awaited: bool = False
    ) -> Renewal:
        self.answer()
        until = self._clock.now() + lease
        renewed = {
            claim.job_id
            for claim in claims
            if self._holds(claim, agent_id)
            and (even_awaited or self.entries[claim.job_id].next_attempt is None)
        }
        for job_id in renewed:
            self.entries[job_id].until = until
        return Renewal(renewed)

    async def complete(self, completions: Sequence[Completion], *, agent_id: str) -> set[UUID]:
        self.answer()
        return {one.job_id for one in completions if self.record(one, agent_id, [])}

    def record(self, completion: Completion, agent_id: str, effects: list[str]) -> bool:
        """The completion and its effects, together or not at all."""
        if not self._holds(Claim(completion.job_id, completion.attempt), agent_id):
            return False
        self.entries[completion.job_id].completion = completion
        self.effects += [(completion.job_id, effect) for effect in effects]
        return True

    async def fail(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        self.answer()
        mine = [one for one in failures if self._holds(Claim(one.job_id, one.attempt), agent_id)]
        for one in mine:
            self.entries[one.job_id].failure, self.entries[one.job_id].holder = one, None
        return {one.job_id for one in mine}

    async def fail_abandoned(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        self.answer()
        failed: set[UUID] = set()
        for one in failures:
            entry = self.entries.get(one.job_id)
            if (
                entry is None
                or entry.holder in (None, agent_id)
                or not self._holds(Claim(one.job_id, one.attempt), entry.holder)
            ):
                continue
            holder = entry.holder.partition(PROCESS_MARK)[0]
            if holder == agent_id.partition(PROCESS_MARK)[0] or (
                entry.until is not None and entry.until <= self._clock.now()
            ):
                details = json.loads(json.dumps(one.details).replace(HOLDER_MARK, holder))
                entry.failure, entry.holder = replace(one, details=details), None
                failed.add(one.job_id)
        return failed

    async def save_checkpoints(
        self, checkpoints: Sequence[SavedCheckpoint], *, agent_id: str, now: datetime
    ) -> set[UUID]:
        self.answer()
        mine = [one for one in checkpoints if self._holds(Claim(one.job_id, one.attempt), agent_id)]
        for one in mine:
            self.entries[one.job_id].checkpoint = one
        return {one.job_id for one in mine}

    async def release(self, claims: Sequence[Claim], *, agent_id: str) -> None:
        self.answer()
        for claim in claims:
            if self._holds(claim, agent_id):
                self.entries[claim.job_id].holder = None

    async def cancel(self, job_ids: Collection[UUID], *, now: datetime) -> None:
        self.answer()
        for job_id in job_ids:
            entry = self.entries.setdefault(job_id, Entry())
            entry.cancelled = entry.completion is None

    def transaction(
        self, claim: Claim, *, agent_id: str, time_left: float = inf
    ) -> AbstractAsyncContextManager["MemoryTransaction"]:
        del time_left
        return self._transaction(claim.job_id, agent_id)

    @asynccontextmanager
    async def _transaction(self, job_id: UUID, agent_id: str) -> AsyncGenerator["MemoryTransaction"]:
        self.answer()
        yield MemoryTransaction(self, agent_id)

    async def delete_old(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> DeletedRows:
        return DeletedRows()

    def _holds(self, claim: Claim, agent_id: str) -> bool:
        entry = self.entries.get(claim.job_id)
        return (
            entry is not None
            and entry.completion is None
            and not entry.cancelled
            and (entry.attempt, entry.holder) == (claim.attempt, agent_id)
        )


class MemoryTransaction:
    """Effects that count once the completion is recorded."""

    def __init__(self, ledger: MemoryLedger, agent_id: str) -> None:
        self._ledger, self._agent_id = ledger, agent_id
        self._pending: list[str] = []

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        self._pending.append(statement)
        return []

    async def complete(self, completion: Completion) -> bool:
        self._ledger.answer()
        return self._ledger.record(completion, self._agent_id, self._pending)

"""What circuit breakers hold back at the door: the job is there, and waits."""

from dataclasses import replace
from datetime import datetime

from warrener_contracts.states import JobState
from warrener_scheduler.admission import Accepted, AdmissionDecision
from warrener_store.breakers.gate import RECHECK_INTERVAL, OpenBreakers
from warrener_store.jobs.rows import JobRow
from warrener_store.store import StateStore


class BreakerCache:
    """The breakers, as of the last look. What gets past one that has opened since, the agents give back."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._open_breakers = OpenBreakers()

    async def refresh(self) -> None:
        """Learn how all breakers stand."""
        self._open_breakers = OpenBreakers(await self._store.breakers())

    def hold_if_open(self, decision: AdmissionDecision, now: datetime) -> AdmissionDecision:
        """The decision with its job put off, if it would be dispatched and a breaker is not closed."""
        if not isinstance(decision, Accepted) or decision.row.state is not JobState.QUEUED:
            return decision
        row = decision.row
        if self._open_breakers.find_blocking(row.job_type, row.policy) is None:
            return decision
        return Accepted(
            replace(
                row,
                state=JobState.WAITING,
                attempt=0,
                due_at=now,
                wake_at=now + RECHECK_INTERVAL,
                dispatched_at=None,
            )
        )

    def is_held(self, row: JobRow, now: datetime) -> bool:
        """Whether a job that has waited must wait on, for a breaker that has not chosen it as its probe."""
        return self._open_breakers.holds(row, now) is not None

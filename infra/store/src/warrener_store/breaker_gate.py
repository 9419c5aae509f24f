"""Which jobs the circuit breakers hold back, as of the last look at them. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from warrener_contracts.circuit_breaker import BreakerState, breakers_for
from warrener_contracts.policy import JobPolicy
from warrener_store.rows import BreakerRow, JobRow

RECHECK_INTERVAL = timedelta(minutes=10)
"""What is held back is looked at again after so long, should nobody wake it: a breaker that closes does."""


class OpenBreakers:
    """The breakers that are not closed."""

    def __init__(self, rows: Iterable[BreakerRow] = ()) -> None:
        self._rows = {row.name: row for row in rows if row.state is not BreakerState.CLOSED}

    def find_blocking(self, job_type: str, policy: JobPolicy) -> BreakerRow | None:
        """The breaker that jobs of this type and policy have to wait for; an open one before a half open."""
        if not self._rows:
            return None
        found = [self._rows[name] for name in breakers_for(job_type, policy.depends_on) if name in self._rows]
        return min(found, key=lambda row: row.state is not BreakerState.OPEN, default=None)

    def find_open(self, job_type: str, policy: JobPolicy) -> BreakerRow | None:
        """The breaker that lets none of them through, not even as a probe."""
        found = self.find_blocking(job_type, policy)
        return found if found is not None and found.state is BreakerState.OPEN else None

    def holds(self, row: JobRow, now: datetime) -> BreakerRow | None:
        """The breaker for which a job that is due must wait on. A half open one lets through what it has
        woken as its probe: that was put off before."""
        found = self.find_blocking(row.job_type, row.policy)
        if found is None or found.state is BreakerState.OPEN:
            return found
        return None if _was_woken_early(row, now) else found


def _was_woken_early(row: JobRow, now: datetime) -> bool:
    """Whether it has been looked at since it was due, and is back before its time: somebody has woken it."""
    return row.due_at is not None and row.due_at <= row.updated_at and now < row.updated_at + RECHECK_INTERVAL


NO_OPEN_BREAKERS = OpenBreakers()

"""Circuit breakers that were open, and the jobs that they hold back. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from warrener_contracts import circuit_breaker

if TYPE_CHECKING:  # breakers are listed without jobs
    from warrener_contracts.policy import JobPolicy
    from warrener_store.jobs.rows import JobRow

RECHECK_INTERVAL = timedelta(minutes=10)
"""Time after which a job that is held back is looked at again, unless its breaker closes and releases it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRow:
    """A circuit breaker that has been open. One that never was has no row, and is closed."""

    name: str  # `job:<job type>`, `dependency:<name>` or `queue:<name>`
    version: int = 1
    state: circuit_breaker.BreakerState
    manual: bool = False  # a person has opened or closed it
    since: datetime
    until: datetime | None = (
        None  # open: the first probe follows; half open: the next one. None: never by itself
    )
    times_opened: int = 0  # in a row, without having closed in between: the open duration grows with it
    probes_succeeded: int = 0  # half open: the number of probes that have succeeded
    reason: str
    job_types: tuple[str, ...] = ()  # the job types that it has held back
    policy: circuit_breaker.BreakerPolicy


class OpenBreakers:
    """The breakers that are not closed."""

    def __init__(self, rows: Iterable[BreakerRow] = ()) -> None:
        self._rows = {row.name: row for row in rows if row.state is not circuit_breaker.BreakerState.CLOSED}

    @property
    def paused_queues(self) -> list[str]:
        """The queues whose jobs wait, whatever their types."""
        return [queue for name in self._rows if (queue := circuit_breaker.paused_queue(name)) is not None]

    def find_pause(self, queue: str) -> BreakerRow | None:
        """The breaker that pauses this queue."""
        return self._rows.get(circuit_breaker.queue_breaker(queue))

    def find_blocking(self, job_type: str, policy: "JobPolicy", queue: str | None) -> BreakerRow | None:
        """The breaker that jobs of this type and policy wait for in this queue, or (None) in any; an open one
        before a half open one."""
        if not self._rows:
            return None
        names = (
            *circuit_breaker.breakers_for(job_type, policy.depends_on),
            *(() if queue is None else (circuit_breaker.queue_breaker(queue),)),
        )
        found = [self._rows[name] for name in names if name in self._rows]
        return min(found, key=lambda row: row.state is not circuit_breaker.BreakerState.OPEN, default=None)

    def find_open(self, job_type: str, policy: "JobPolicy") -> BreakerRow | None:
        """The breaker that admits none of these jobs, not even as a probe. A pause of their queue is none: it
        is to blame for no failure."""
        found = self.find_blocking(job_type, policy, None)
        return found if found is not None and found.state is circuit_breaker.BreakerState.OPEN else None

    def holds(self, row: "JobRow", now: datetime) -> BreakerRow | None:
        """The breaker for which a due job must wait on. A half open one admits the job that was woken as its
        probe, which had been put off before."""
        found = self.find_blocking(row.job_type, row.policy, row.queue)
        if found is None or found.state is circuit_breaker.BreakerState.OPEN:
            return found
        return None if _was_woken_early(row, now) else found


def _was_woken_early(row: "JobRow", now: datetime) -> bool:
    """True if the job was put off after it was due, and is back before that time is over."""
    return row.due_at is not None and row.due_at <= row.updated_at and now < row.updated_at + RECHECK_INTERVAL


NO_OPEN_BREAKERS = OpenBreakers()

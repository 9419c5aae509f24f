"""Decide which attempts an open circuit breaker holds back."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from warrener_contracts.circuit_breaker import BreakerState, breakers_for
from warrener_contracts.events import AttemptDispatched, BreakerChangedData
from warrener_contracts.policy import JobPolicy

_STATE_TTL = 30.0
"""Seconds for which a state is valid without being repeated; the supervisor repeats it every 5."""


class _TrackedBreaker(NamedTuple):
    """A breaker that is not closed."""

    name: str
    state: BreakerState
    opened_at: datetime
    valid_until: float  # monotonic

    def applies_to(self, event: AttemptDispatched) -> bool:
        """True if this attempt is given back.

        Attempts sent while the breaker is half open are probes. Attempts sent before it opened are not: they
        waited in a delay queue or a dispatch queue.
        """
        if self.state is BreakerState.OPEN:
            return True
        return event.time is not None and event.time < self.opened_at


class BreakerFilter:
    """Says which attempts are given back instead of run.

    States expire, so that a lost message costs only time.
    """

    def __init__(self, policies: Mapping[str, JobPolicy]) -> None:
        self._job_types_by_breaker: dict[str, list[str]] = {}
        for job_type, policy in policies.items():
            for name in breakers_for(job_type, policy.depends_on):
                self._job_types_by_breaker.setdefault(name, []).append(job_type)
        self._tracked: dict[str, _TrackedBreaker] = {}
        self._by_job_type: dict[str, list[_TrackedBreaker]] = {}

    def update(self, data: BreakerChangedData, now: float) -> bool:
        """Apply a breaker's state; True if that changes anything for this agent's job types."""
        if data.name not in self._job_types_by_breaker:
            return False
        known = self._tracked.pop(data.name, None)
        if data.state is BreakerState.OPEN:
            self._track(data, data.since, now)
        elif data.state is BreakerState.HALF_OPEN and known is not None:
            self._track(data, known.opened_at, now)
        self._rebuild()
        return (known.state if known else BreakerState.CLOSED) is not data.state

    def hold_reason(self, event: AttemptDispatched, now: float) -> str | None:
        """Return why this attempt is given back; None if it may run."""
        if not self._by_job_type:  # nearly always
            return None
        stale = [name for name, breaker in self._tracked.items() if breaker.valid_until <= now]
        for name in stale:
            del self._tracked[name]
        if stale:
            self._rebuild()
        holding = next(
            (one for one in self._by_job_type.get(event.data.job_type, ()) if one.applies_to(event)), None
        )
        return f"{holding.name} is {holding.state.value}" if holding is not None else None

    def _track(self, data: BreakerChangedData, opened_at: datetime, now: float) -> None:
        self._tracked[data.name] = _TrackedBreaker(data.name, data.state, opened_at, now + _STATE_TTL)

    def _rebuild(self) -> None:
        self._by_job_type = {}
        for name, breaker in self._tracked.items():
            for job_type in self._job_types_by_breaker[name]:
                self._by_job_type.setdefault(job_type, []).append(breaker)

"""Which attempts the circuit breakers hold back, as this agent has heard."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from warrener_contracts.circuit_breaker import BreakerState, breakers_for
from warrener_contracts.events import AttemptDispatched, BreakerChangedData
from warrener_contracts.policy import JobPolicy

_BELIEVED = 30.0
"""Seconds for which a breaker is believed in without being heard of; the supervisor repeats it every 5."""


class _Barrier(NamedTuple):
    """A breaker that is not closed."""

    name: str
    state: BreakerState
    opened_at: datetime
    believed_until: float  # monotonic

    def holds(self, event: AttemptDispatched) -> bool:
        """Whether this attempt is given back. What is sent while probes are out is a probe; so all but what
        was sent before the breaker had opened: by the ladder, or to wait in a queue."""
        if self.state is BreakerState.OPEN:
            return True
        return event.time is not None and event.time < self.opened_at


class Gate:
    """What is given back instead of run. It forgets by itself, so that a lost word costs time alone."""

    def __init__(self, policies: Mapping[str, JobPolicy]) -> None:
        self._behind: dict[str, list[str]] = {}  # job types by the breakers before them
        for job_type, policy in policies.items():
            for name in breakers_for(job_type, policy.depends_on):
                self._behind.setdefault(name, []).append(job_type)
        self._barriers: dict[str, _Barrier] = {}
        self._held: dict[str, list[_Barrier]] = {}  # by job type

    def hear(self, data: BreakerChangedData, now: float) -> bool:
        """A breaker stands like this. Whether that is news for what this agent runs."""
        if data.name not in self._behind:
            return False
        known = self._barriers.pop(data.name, None)
        if data.state is BreakerState.OPEN:
            self._bar(data, data.since, now)
        elif data.state is BreakerState.HALF_OPEN and known is not None:
            self._bar(data, known.opened_at, now)
        self._reckon()
        return (known.state if known else BreakerState.CLOSED) is not data.state

    def held(self, event: AttemptDispatched, now: float) -> str | None:
        """Why this attempt is given back; None where it may run."""
        if not self._held:  # nearly always
            return None
        stale = [name for name, barrier in self._barriers.items() if barrier.believed_until <= now]
        for name in stale:
            del self._barriers[name]
        if stale:
            self._reckon()
        holding = next((one for one in self._held.get(event.data.job_type, ()) if one.holds(event)), None)
        return f"{holding.name} is {holding.state.value}" if holding is not None else None

    def _bar(self, data: BreakerChangedData, opened_at: datetime, now: float) -> None:
        self._barriers[data.name] = _Barrier(data.name, data.state, opened_at, now + _BELIEVED)

    def _reckon(self) -> None:
        self._held = {}
        for name, barrier in self._barriers.items():
            for job_type in self._behind[name]:
                self._held.setdefault(job_type, []).append(barrier)

"""Decide which attempts an open circuit breaker holds back."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from warrener_contracts.circuit_breaker import BreakerState, breakers_for, paused_queue, queue_breaker
from warrener_contracts.events import AttemptDispatched, BreakerChangedData
from warrener_contracts.policy import JobPolicy

_STATE_TTL = 30.0
"""Seconds for which a state is valid without being repeated; the supervisor repeats it every 5."""


class _TrackedBreaker(NamedTuple):
    """A breaker that is not closed."""

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

    def __init__(self, policies: Mapping[str, JobPolicy], queues: Iterable[str] = ()) -> None:
        self._job_types: defaultdict[str, set[str]] = defaultdict(set)  # by breaker
        for queue in queues:
            self._job_types[queue_breaker(queue)] = set(policies)
        for job_type, policy in policies.items():
            for name in breakers_for(job_type, policy.depends_on):
                self._job_types[name].add(job_type)
        self._tracked: dict[str, _TrackedBreaker] = {}

    def update(self, data: BreakerChangedData, now: float) -> bool:
        """Apply a breaker's state; True if that changes anything for this agent's job types."""
        if data.name not in self._job_types:
            return False
        known = self._tracked.pop(data.name, None)
        if known is not None and known.valid_until <= now:
            known = None
        if data.state is BreakerState.OPEN or (data.state is BreakerState.HALF_OPEN and known is not None):
            opened_at = known.opened_at if known and data.state is BreakerState.HALF_OPEN else data.since
            self._tracked[data.name] = _TrackedBreaker(data.state, opened_at, now + _STATE_TTL)
        return (known.state if known else BreakerState.CLOSED) is not data.state

    def hold_reason(self, event: AttemptDispatched, now: float) -> str | None:
        """Return why this attempt is given back; None if it may run."""
        for name, breaker in self._tracked.items():
            queue = paused_queue(name)
            is_needed = event.data.job_type in self._job_types[name] and queue in (None, event.data.queue)
            if is_needed and now < breaker.valid_until and breaker.applies_to(event):
                return f"{name} is {breaker.state.value}"
        return None

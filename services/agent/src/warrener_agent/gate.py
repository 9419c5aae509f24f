"""Which job types the circuit breakers hold back, as this agent has heard."""

from collections.abc import Iterable, Mapping

from warrener_contracts.breaking import BreakerState, before
from warrener_contracts.events import BreakerChangedData
from warrener_contracts.policy import JobPolicy

_BELIEVED = 30.0
"""Seconds for which an open breaker is believed in without being heard of; the supervisor repeats it every
5."""


class Gate:
    """What is given back instead of run. It forgets by itself, so that a lost word costs time alone."""

    def __init__(self, policies: Mapping[str, JobPolicy]) -> None:
        self._behind: dict[str, list[str]] = {}  # job types by the breakers before them
        for job_type, policy in policies.items():
            for name in before(job_type, policy.depends_on):
                self._behind.setdefault(name, []).append(job_type)
        self._shut: dict[str, float] = {}  # until when, by breaker; monotonic
        self._held: dict[str, str] = {}  # the breaker, by job type

    def hear(self, data: BreakerChangedData, now: float) -> bool:
        """A breaker stands like this. Whether that is news for what this agent runs."""
        if data.name not in self._behind:
            return False
        was_shut = data.name in self._shut
        if data.state is BreakerState.OPEN:
            self._shut[data.name] = now + _BELIEVED
        else:
            self._shut.pop(data.name, None)
        self._reckon(self._shut)
        return was_shut is not (data.name in self._shut)

    def held(self, job_type: str, now: float) -> str | None:
        """The open breaker for which attempts of this job type are given back."""
        if not self._held:  # nearly always
            return None
        if stale := [name for name, until in self._shut.items() if until <= now]:
            for name in stale:
                del self._shut[name]
            self._reckon(self._shut)
        return self._held.get(job_type)

    def _reckon(self, shut: Iterable[str]) -> None:
        self._held = {job_type: name for name in shut for job_type in self._behind[name]}

"""The crash limit of job types: back-off, and suspension of a type whose processes die too often."""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle import NotReady
from warrener_runtime.logs import get_logger

_log = get_logger("agent.restarts")

_FIRST, _CEILING = 0.1, 5.0  # seconds of back-off


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """A job type is suspended for `hold` seconds after more than `deaths` deaths in `within` seconds."""

    deaths: int = 10
    within: float = 60.0
    hold: float = 30.0


class Restarts:
    """Counts the crashes of processes by job type, as an OTP supervisor does.

    A process is started again when the next attempt needs one; attempts of a suspended type go back to the
    queue, uncharged.
    """

    def __init__(self, clock: Clock | None = None, limit: RestartLimit | None = None) -> None:
        self._clock = clock or SystemClock()
        self._limit = limit or RestartLimit()
        self._deaths: defaultdict[str, deque[float]] = defaultdict(deque)
        self._in_a_row: Counter[str] = Counter()
        self._suspended_until: dict[str, float] = {}

    def record_crash(self, job_type: str) -> None:
        """Note that a process of this type died, and its agent did not kill it."""
        now, limit = self._clock.monotonic(), self._limit
        deaths = self._deaths[job_type]
        deaths.append(now)
        self._in_a_row[job_type] += 1
        while deaths[0] < now - limit.within:
            deaths.popleft()
        if len(deaths) > limit.deaths and job_type not in self._suspended_until:
            self._suspended_until[job_type] = now + limit.hold
            _log.error(
                "A job type was suspended: its processes die too often. Other agents may run its attempts.",
                action="agent.job_type_suspended",
                job_type=job_type,
                crashes=len(deaths),
                within=limit.within,
                hold=limit.hold,
            )

    def record_clean_exit(self, job_type: str) -> None:
        """Note that a process of this type reported the end of its attempt: the next starts without a
        pause."""
        self._in_a_row.pop(job_type, None)

    async def pause(self, job_type: str) -> None:
        """Wait before the next process of this type: longer with each crash in a row."""
        in_a_row = self._in_a_row.get(job_type, 0)
        if in_a_row:
            until = self._deaths[job_type][-1] + min(_CEILING, _FIRST * 2.0 ** min(in_a_row - 1, 20))
            await self._clock.sleep(max(0.0, until - self._clock.monotonic()))

    def is_suspended(self, job_type: str) -> bool:
        """True if attempts of this type must not begin now."""
        until = self._suspended_until.get(job_type)
        if until is None:
            return False
        if self._clock.monotonic() < until:
            return True
        del self._suspended_until[job_type]
        self._deaths[job_type].clear()
        self._in_a_row.pop(job_type, None)
        _log.info("A suspended job type is tried again.", action="agent.job_type_resumed", job_type=job_type)
        return False

    async def check(self) -> None:
        """Check the agent's health. Raises NotReady while types are suspended."""
        held = [name for name in list(self._suspended_until) if self.is_suspended(name)]
        if held:
            raise NotReady(f"processes die too often; held for now: {', '.join(sorted(held))}")

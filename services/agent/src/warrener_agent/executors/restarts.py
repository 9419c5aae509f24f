"""How often the processes of a job type may die: back-off, and holding the type where it is too often."""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.logs import get_logger

_log = get_logger("agent.restarts")

_FIRST, _CEILING = 0.1, 5.0  # seconds of back-off


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """At most `deaths` `within` so many seconds, or the type is held for `hold` seconds."""

    deaths: int = 10
    within: float = 60.0
    hold: float = 30.0


class JobTypesSuspended(Exception):
    """Some job types are held; the message says which and why."""


class Restarts:
    """Counts the deaths of processes by job type, as a supervisor of OTP does. A process is started again
    when the next attempt needs one; what is held here goes back to the queue and is not charged."""

    def __init__(self, clock: Clock | None = None, limit: RestartLimit | None = None) -> None:
        self._clock = clock or SystemClock()
        self._limit = limit or RestartLimit()
        self._deaths: defaultdict[str, deque[float]] = defaultdict(deque)
        self._in_a_row: Counter[str] = Counter()
        self._suspended_until: dict[str, float] = {}

    def record_crash(self, job_type: str) -> None:
        """A process of this type died, and not by our hand."""
        now, limit = self._clock.monotonic(), self._limit
        deaths = self._deaths[job_type]
        deaths.append(now)
        self._in_a_row[job_type] += 1
        while deaths[0] < now - limit.within:
            deaths.popleft()
        if len(deaths) > limit.deaths and job_type not in self._suspended_until:
            self._suspended_until[job_type] = now + limit.hold
            _log.error(
                "The processes of a job type die too often; its attempts are left to other agents for now.",
                action="agent.type_held",
                job_type=job_type,
                deaths=len(deaths),
                within=limit.within,
                hold=limit.hold,
            )

    def record_clean_exit(self, job_type: str) -> None:
        """A process of this type has reported the end of its attempt: the next begins without a pause."""
        self._in_a_row.pop(job_type, None)

    async def pause(self, job_type: str) -> None:
        """Wait before the next process of this type: longer with each death in a row."""
        in_a_row = self._in_a_row.get(job_type, 0)
        if in_a_row:
            until = self._deaths[job_type][-1] + min(_CEILING, _FIRST * 2.0 ** min(in_a_row - 1, 20))
            await self._clock.sleep(max(0.0, until - self._clock.monotonic()))

    def is_suspended(self, job_type: str) -> bool:
        """Whether attempts of this type are not to be begun now."""
        until = self._suspended_until.get(job_type)
        if until is None:
            return False
        if self._clock.monotonic() < until:
            return True
        del self._suspended_until[job_type]
        self._deaths[job_type].clear()
        self._in_a_row.pop(job_type, None)
        _log.info("A job type that was held is tried again.", action="agent.type_tried", job_type=job_type)
        return False

    async def check(self) -> None:
        """For the agent's health. Raises TypesHeld."""
        held = [name for name in list(self._suspended_until) if self.is_suspended(name)]
        if held:
            raise JobTypesSuspended(f"processes die too often; held for now: {', '.join(sorted(held))}")

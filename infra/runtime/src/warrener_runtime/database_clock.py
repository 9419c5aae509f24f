"""The database's clock, carried between samples by the local monotonic clock.

All services that share a database agree on the time, whatever the wall clocks of their hosts say or however
those are set. A sample is one small statement, every `SAMPLE_INTERVAL` seconds; `now()` itself is local.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple

from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle import Component, Group, Loop, NotReady, Resource
from warrener_runtime.logs import get_logger

_log = get_logger("clock")

SAMPLE_INTERVAL = 2.0
"""Seconds between samples."""
MAX_SAMPLE_AGE = 10.0
"""Seconds after which a sample is too old to trust: the process was frozen, or its database is away."""
MAX_UNCERTAINTY = 0.5
"""Seconds of error up to which a sample is trusted."""
STEP = 0.5
"""Seconds beyond the uncertainty from which a difference is a step, of the database's clock or by a
suspended host. Smaller differences are corrected without going back."""
MAX_DEVIATION = 1.0
"""Seconds between the local wall clock and the database's from which the service reports it."""

_FIRST_SAMPLES = 3
_SAMPLE_TIMEOUT = 5.0
_DRIFT = 2e-4  # seconds a second by which a monotonic clock may be wrong: twice what crystals are allowed


class _Bounds(NamedTuple):
    """Limits of the difference between the database's time and the local monotonic clock."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def uncertainty(self) -> float:
        return (self.high - self.low) / 2


class DatabaseClock:
    """A `Clock` whose `now()` is the database's time: the last sample plus the monotonic time since.

    A sample lies somewhere in its round trip, so half of that is its uncertainty; one with a short round trip
    replaces the estimate, one with a long round trip only limits it. `now()` never goes back, except after a
    step: if two samples in a row contradict the estimate by more than STEP, the new time holds at once, and
    the clock is not trusted until the next sample confirms it. Before the first sample it is the local clock.
    """

    def __init__(self, read: Callable[[], Awaitable[datetime]], *, local: Clock | None = None) -> None:
        """`read` reads the database's time, and may raise the database's errors."""
        self._read, self._local = read, local or SystemClock()
        self._offset: float | None = None  # the database's epoch seconds less the monotonic ones
        self._uncertainty = 0.0
        self._sampled_at = 0.0  # monotonic
        self._last = 0.0  # what now() has returned, as epoch seconds
        self._stepped = False
        self._deviates = False

    def now(self) -> datetime:
        if self._offset is None:
            return self._local.now()
        moment = self._offset + self._local.monotonic()
        if moment < self._last:
            moment = self._last
        else:
            self._last = moment
        return datetime.fromtimestamp(moment, UTC)

    def monotonic(self) -> float:
        return self._local.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._local.sleep(seconds)

    @property
    def trusted(self) -> bool:
        """True if there is a recent and accurate sample, so that leases and deadlines may be judged."""
        return self._distrust_reason() is None

    @property
    def deviation(self) -> float:
        """Seconds by which the local wall clock is ahead of the database's; 0 before the first sample."""
        if self._offset is None:
            return 0.0
        return self._local.now().timestamp() - self._offset - self._local.monotonic()

    def component(self) -> Component:
        """The component that takes samples; start it after the database and before all that trusts the
        clock."""
        return Group(
            Resource("first sample of the database's time", self.start),
            Loop("clock", self.sample, every=SAMPLE_INTERVAL, clock=self._local),
            name="clock",
        )

    async def start(self) -> None:
        """Take the first samples; the one with the shortest round trip counts."""
        for _ in range(_FIRST_SAMPLES):
            await self.sample()

    async def sample(self) -> None:
        """Take one sample. After an error of the database, which is raised, the estimate stays."""
        bounds = await self._read_bounds()
        if self._contradicts(bounds):
            bounds = await self._read_bounds()  # one reading may be wrong: a step shows in two
            if self._contradicts(bounds):
                self._apply_step(bounds)
                return
        self._stepped = False
        self._apply_sample(bounds)

    async def check(self) -> str | None:
        """Check readiness: raise NotReady while not trusted; return a note if the local clock is wrong."""
        if reason := self._distrust_reason():
            raise NotReady(reason)
        deviation = self.deviation
        return (
            f"ok; {_describe_deviation(deviation)}, which is not used"
            if abs(deviation) > MAX_DEVIATION
            else None
        )

    def _distrust_reason(self) -> str | None:
        if self._offset is None:
            return "the database's time has not been read yet"
        age = self._local.monotonic() - self._sampled_at
        if age > MAX_SAMPLE_AGE:
            return f"the last good sample of the database's time is {age:.0f} s old; time is not judged"
        if self._stepped:
            return "the database's time has jumped; time is not judged until it is confirmed"
        return None

    async def _read_bounds(self) -> _Bounds:
        before = self._local.monotonic()
        async with asyncio.timeout(_SAMPLE_TIMEOUT):
            database_time = (await self._read()).timestamp()
        return _Bounds(database_time - self._local.monotonic(), database_time - before)

    def _contradicts(self, bounds: _Bounds) -> bool:
        if self._offset is None:
            return False
        deviation = max(bounds.low - self._offset, self._offset - bounds.high)
        return deviation > self._aged() + STEP

    def _aged(self) -> float:
        """The uncertainty of the estimate now: it grows with the age of the sample."""
        return self._uncertainty + _DRIFT * (self._local.monotonic() - self._sampled_at)

    def _apply_sample(self, bounds: _Bounds) -> None:
        aged = self._aged()
        if self._offset is None or bounds.uncertainty <= aged:
            self._offset, self._uncertainty = bounds.middle, bounds.uncertainty
        else:
            self._offset, self._uncertainty = min(max(self._offset, bounds.low), bounds.high), aged
        if self._uncertainty <= MAX_UNCERTAINTY:
            self._sampled_at = self._local.monotonic()
        self._report_deviation()

    def _apply_step(self, bounds: _Bounds) -> None:
        assert self._offset is not None
        _log.warning(
            "The database's time has jumped against the monotonic clock; leases are judged again later.",
            action="clock.stepped",
            seconds=round(bounds.middle - self._offset, 3),
        )
        self._offset, self._uncertainty = bounds.middle, bounds.uncertainty
        self._sampled_at, self._last, self._stepped = self._local.monotonic(), 0.0, True
        self._report_deviation()

    def _report_deviation(self) -> None:
        """Log once at the start, and once at the end."""
        deviation = self.deviation
        if not self._deviates and abs(deviation) > MAX_DEVIATION + self._uncertainty:
            self._deviates = True
            _log.warning(
                f"{_describe_deviation(deviation).capitalize()}; the database's time is used instead. "
                "Let a time service (NTP) "
                "set both clocks.",
                action="clock.deviates",
                seconds=round(deviation, 3),
            )
        elif self._deviates and abs(deviation) < MAX_DEVIATION / 2:
            self._deviates = False
            _log.info(
                "The clock of this host agrees with the database's again.",
                action="clock.agrees",
                seconds=round(deviation, 3),
            )


def _describe_deviation(deviation: float) -> str:
    which = "ahead of" if deviation > 0 else "behind"
    return f"the clock of this host is {abs(deviation):.1f} s {which} the database's"

"""For how long a consumer has been deaf. Pure: time is handed in."""

from dataclasses import dataclass, field
from enum import StrEnum


class Hearing(StrEnum):
    """How a consumer hears its broker."""

    WELL = "well"
    DEAF = "deaf"  # longer than a reconnect takes: not ready
    LOST = "lost"  # longer than it can be hoped for: end the process


@dataclass
class HearingTest:
    """Told now and then whether the subscription is live, it says how bad it is."""

    deaf_after: float
    lost_after: float
    _silent_since: float | None = field(default=None, init=False)

    def observe(self, *, live: bool, now: float) -> Hearing:
        """What to think of it at this moment."""
        if live:
            self._silent_since = None
            return Hearing.WELL
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        if silent >= self.lost_after:
            return Hearing.LOST
        return Hearing.DEAF if silent >= self.deaf_after else Hearing.WELL

"""When an event loop has stood still for too long. Pure."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class LoopStallDetector:
    """Adds up the time for which the loop has not turned, as far as its watcher was awake to see it.

    `limit`: seconds of that until it counts as blocked. `max_step`: so much of them does one look add,
    however long ago the one before was; a process that was frozen, or a machine that slept, has seen nothing
    of its loop. What the loop is at is compared too: as long as it changes, the loop is slow, and not stuck.
    """

    limit: float
    max_step: float
    seconds: float = 0.0
    _activity: Any = None
    _checked_at: float | None = None

    def check(self, now: float, *, turned: bool, activity: Any = None) -> bool:
        """Whether the loop is blocked. `turned`: it has since the last look. `activity`: what it is at."""
        before, self._checked_at = self._checked_at, now
        if turned or before is None or activity is not self._activity:
            self.seconds, self._activity = 0.0, None if turned else activity
            return False
        self.seconds += min(now - before, self.max_step)
        return self.seconds >= self.limit

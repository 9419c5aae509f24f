"""When an event loop has stood still for too long. Pure."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Standstill:
    """Adds up the time for which the loop has not turned, as far as its watcher was awake to see it.

    `limit`: seconds of that until it counts as blocked. `at_most`: so much of them does one look add,
    however long ago the one before was; a process that was frozen, or a machine that slept, has seen nothing
    of its loop. What the loop is at is compared too: as long as it changes, the loop is slow, and not stuck.
    """

    limit: float
    at_most: float
    seconds: float = 0.0
    _doing: Any = None
    _looked_at: float | None = None

    def look(self, now: float, *, turned: bool, doing: Any = None) -> bool:
        """Whether the loop is blocked. `turned`: it has since the last look. `doing`: what it is at."""
        before, self._looked_at = self._looked_at, now
        if turned or before is None or doing is not self._doing:
            self.seconds, self._doing = 0.0, None if turned else doing
            return False
        self.seconds += min(now - before, self.at_most)
        return self.seconds >= self.limit

"""Processor time that the machine refuses to the event loop, and the slots that an agent gives up for it.

A loop that does not turn is blocked by a handler, or its thread waits for a processor. The first is the
handler's fault and ends the agent in the end; the second is nobody's in the agent, and a restart costs more
processor time than it brings.
"""

from pathlib import Path

from warrener_agent.run_table import RunTable
from warrener_runtime.logs import get_logger

_log = get_logger("agent.starvation")

STARVED_SHARE = 0.5
"""Share of the time for which a thread has waited for a processor, from which it counts as starved."""
_LATE_CHECKS = 2
"""Checks in a row in which a starved loop has not turned before the agent gives up slots."""
_GOOD_CHECKS = 20
"""Checks in a row in which the loop has turned before it takes one more."""


class RunQueueWait:
    """Measures how long a thread of this process has waited for a processor, throttling of its control group
    included. Linux alone says so; elsewhere the time is 0."""

    def __init__(self, thread: int) -> None:
        """`thread`: its native id."""
        self._file = Path(f"/proc/self/task/{thread}/schedstat")
        self._before = self._read()

    def seconds(self) -> float:
        """Return the seconds since the last call."""
        before, self._before = self._before, self._read()
        return max(self._before - before, 0.0)

    def _read(self) -> float:
        try:
            return int(self._file.read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0


class SlotLimiter:
    """Halves the slots of an agent each time its starved loop is late, and adds one while the loop turns."""

    def __init__(self, running: RunTable) -> None:
        self._running = running
        self._late = self._good = 0

    def check(self, *, turned: bool, starved: bool) -> None:
        """Note one check of the loop."""
        self._late = 0 if turned or not starved else self._late + 1
        self._good = self._good + 1 if turned else 0
        running = self._running
        if self._late >= _LATE_CHECKS and running.allowed > 1:
            self._late, running.allowed = 0, running.allowed // 2
            _log.warning(
                "The machine gives this agent too little processor time: it takes fewer attempts at once.",
                action="agent.starved",
                slots=running.allowed,
            )
        elif self._good >= _GOOD_CHECKS and running.allowed < running.slots:
            self._good, running.allowed = 0, running.allowed + 1

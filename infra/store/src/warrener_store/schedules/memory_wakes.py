"""When something must be looked at, in memory: the earliest first, as an index gives it."""

import heapq
from datetime import datetime


class MemoryWakes:
    """A time for each name; what was said before of a name counts no more."""

    def __init__(self) -> None:
        self._at: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []  # with what counts no more

    def set(self, name: str, at: datetime | None) -> None:
        """At this time, or never."""
        if self._at.get(name) == at:
            return
        self._at.pop(name, None)
        if at is not None:
            self._at[name] = at
            heapq.heappush(self._heap, (at, name))

    def earliest(self) -> datetime | None:
        """The earliest time of all."""
        self._drop_old()
        return self._heap[0][0] if self._heap else None

    def until(self, end: datetime, limit: int) -> list[str]:
        """The names whose time is `end` or earlier, the earliest first."""
        found: dict[str, datetime] = {}  # a name that was moved to and fro may stand there twice
        while len(found) < limit and (at := self.earliest()) is not None and at <= end:
            found[heapq.heappop(self._heap)[1]] = at
        for name, at in found.items():
            heapq.heappush(self._heap, (at, name))
        return [*found]

    def _drop_old(self) -> None:
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)

"""Ticks and wake-up times in memory, found by the questions for which a database has indexes."""

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterable
from datetime import datetime
from itertools import islice

from warrener_contracts.events import TickStatus
from warrener_store.schedules.rows import TickRow

Key = tuple[str, datetime]


class MemoryTicks:
    """Ticks, unique by schedule and nominal time."""

    def __init__(self) -> None:
        self._by_schedule: dict[str, dict[datetime, TickRow]] = {}
        self._names: list[str] = []  # in order
        self._unpublished: set[Key] = set()
        self._waiting: dict[str, set[datetime]] = {}

    def get(self, key: Key) -> TickRow | None:
        """The tick of this schedule and nominal time."""
        return self._by_schedule.get(key[0], {}).get(key[1])

    def put(self, tick: TickRow) -> None:
        """Insert or replace it."""
        if tick.schedule not in self._by_schedule:
            self._by_schedule[tick.schedule] = {}
            insort(self._names, tick.schedule)
        self._by_schedule[tick.schedule][tick.nominal_at] = tick
        (self._unpublished.discard if tick.wake_at is None else self._unpublished.add)(tick.key)
        waiting = self._waiting.setdefault(tick.schedule, set())
        (waiting.add if tick.status is TickStatus.WAITING else waiting.discard)(tick.nominal_at)

    def remove(self, ticks: Iterable[TickRow]) -> None:
        """Delete these."""
        for tick in ticks:
            del self._by_schedule[tick.schedule][tick.nominal_at]
            self._unpublished.discard(tick.key)
            self._waiting[tick.schedule].discard(tick.nominal_at)

    def unpublished(self) -> list[TickRow]:
        """Ticks that are not known to be published."""
        return [self._by_schedule[schedule][nominal_at] for schedule, nominal_at in self._unpublished]

    def waiting(self, schedule: str) -> list[TickRow]:
        """Ticks of a schedule that wait for the end of a job, the oldest first."""
        ticks = self._by_schedule.get(schedule, {})
        return [ticks[moment] for moment in sorted(self._waiting.get(schedule, ()))]

    def of(self, schedule: str) -> list[TickRow]:
        """Ticks of a schedule, the newest first."""
        return [tick for _, tick in sorted(self._by_schedule.get(schedule, {}).items(), reverse=True)]

    def count(self, schedule: str) -> int:
        """The number of ticks of a schedule."""
        return len(self._by_schedule.get(schedule, ()))

    def schedules(self, after: str, limit: int) -> list[str]:
        """The names after `after` that have ticks, in order."""
        first = bisect_right(self._names, after)
        there = (name for name in self._names[first:] if self._by_schedule[name])
        return list(islice(there, limit))


class MemoryWakes:
    """One time for each name; a new one replaces the old."""

    def __init__(self) -> None:
        self._at: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []  # replaced times included

    def set(self, name: str, at: datetime | None) -> None:
        """Set the time of a name, or remove it."""
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
        found: dict[str, datetime] = {}  # a name that was moved and moved back stands there twice
        while len(found) < limit and (at := self.earliest()) is not None and at <= end:
            found[heapq.heappop(self._heap)[1]] = at
        for name, at in found.items():
            heapq.heappush(self._heap, (at, name))
        return [*found]

    def _drop_old(self) -> None:
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)

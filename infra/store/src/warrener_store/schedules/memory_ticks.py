"""Ticks in memory, found by what is asked of them: those of a schedule, those that are not published, those
that wait. What a database has indexes for."""

from bisect import bisect_right, insort
from collections.abc import Iterable
from datetime import datetime
from itertools import islice

from warrener_contracts.events import TickStatus
from warrener_store.schedules.rows import TickRow

Key = tuple[str, datetime]


class MemoryTicks:
    """The ledger; unique by schedule and nominal time."""

    def __init__(self) -> None:
        self._by_schedule: dict[str, dict[datetime, TickRow]] = {}
        self._names: list[str] = []  # in order
        self._unpublished: set[Key] = set()
        self._waiting: dict[str, set[datetime]] = {}

    def get(self, key: Key) -> TickRow | None:
        """The tick of this schedule and nominal time."""
        return self._by_schedule.get(key[0], {}).get(key[1])

    def put(self, tick: TickRow) -> None:
        """Keep it, in place of what was there."""
        if tick.schedule not in self._by_schedule:
            self._by_schedule[tick.schedule] = {}
            insort(self._names, tick.schedule)
        self._by_schedule[tick.schedule][tick.nominal_at] = tick
        (self._unpublished.discard if tick.wake_at is None else self._unpublished.add)(tick.key)
        waiting = self._waiting.setdefault(tick.schedule, set())
        (waiting.add if tick.fate is TickStatus.WAITING else waiting.discard)(tick.nominal_at)

    def remove(self, ticks: Iterable[TickRow]) -> None:
        """Forget these."""
        for tick in ticks:
            del self._by_schedule[tick.schedule][tick.nominal_at]
            self._unpublished.discard(tick.key)
            self._waiting[tick.schedule].discard(tick.nominal_at)

    def unpublished(self) -> list[TickRow]:
        """Those with a time to look at them again."""
        return [self._by_schedule[schedule][nominal_at] for schedule, nominal_at in self._unpublished]

    def waiting(self, schedule: str) -> list[TickRow]:
        """Those of a schedule that wait for the end of a job, the oldest first."""
        ticks = self._by_schedule.get(schedule, {})
        return [ticks[moment] for moment in sorted(self._waiting.get(schedule, ()))]

    def of(self, schedule: str) -> list[TickRow]:
        """Those of a schedule, the newest first."""
        return [tick for _, tick in sorted(self._by_schedule.get(schedule, {}).items(), reverse=True)]

    def count(self, schedule: str) -> int:
        """How many there are of a schedule."""
        return len(self._by_schedule.get(schedule, ()))

    def schedules(self, after: str, limit: int) -> list[str]:
        """The names behind `after` that there are ticks of, in order."""
        first = bisect_right(self._names, after)
        there = (name for name in self._names[first:] if self._by_schedule[name])
        return list(islice(there, limit))

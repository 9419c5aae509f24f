"""A time axis on which long waits are folded, so that short work beside them can be seen. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from warrener.render.times import brief

FOLD_FACTOR = 5  # a wait longer than this many times the work is folded
_FOLD_WIDTH = 0.12  # share of the axis
_MAX_FOLDED = 0.5  # share of the axis that all folds may take
_SHORTEST = timedelta(milliseconds=1)
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_STEPS = (
    *(base * 10.0**power for power in range(-4, 1) for base in (1, 2, 5)),
    *(10.0, 15.0, 30.0),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 28, 91, 182, 365)),
)
"""Distances of ticks, in seconds."""


class TimeSpan(NamedTuple):
    """A part of the axis, and its name."""

    start: datetime
    end: datetime
    text: str = ""

    @property
    def length(self) -> timedelta:
        return self.end - self.start


class AxisTick(NamedTuple):
    """A tick. `position` is a share of the axis; the time is that since the last fold, or since the start."""

    position: float
    text: str


class FoldedAxis:
    """Maps moments to shares of a drawing's width, from 0 to 1. Each fold is as wide as the others."""

    def __init__(self, start: datetime, end: datetime, folds: Sequence[TimeSpan] = ()) -> None:
        self.start, self.end = start, max(end, start + _SHORTEST)
        self.folds = tuple(folds)
        linear = self.end - start - sum((fold.length for fold in folds), timedelta(0))
        width = min(_FOLD_WIDTH, _MAX_FOLDED / max(len(folds), 1))
        self._per_second = (1 - width * len(folds)) / max(linear, _SHORTEST).total_seconds()
        knots = [(start, 0.0)]
        for fold in folds:
            moment, position = knots[-1]
            position += (fold.start - moment).total_seconds() * self._per_second
            knots += [(fold.start, position), (fold.end, position + width)]
        self._knots = [*knots, (self.end, 1.0)]

    def position(self, moment: datetime) -> float:
        """The share of the axis at this moment; one beyond an end is at this end."""
        if moment <= self.start:
            return 0.0
        if moment >= self.end:
            return 1.0
        index = bisect_right(self._knots, moment, key=lambda knot: knot[0])
        (before, low), (after, high) = self._knots[index - 1], self._knots[index]
        share = (moment - before) / (after - before)
        return min(max(low + (high - low) * share, 0.0), 1.0)

    def ticks(self, count: int) -> list[AxisTick]:
        """About so many ticks at round times, none within a fold."""
        wanted = 1 / (max(count, 1) * self._per_second)
        step = timedelta(seconds=next((step for step in _STEPS if step >= wanted), _STEPS[-1]))
        ticks: list[AxisTick] = []
        begin = self.start
        for fold in (*self.folds, TimeSpan(self.end, self.end)):
            first = begin == self.start
            for number in range(0 if first else 1, int((fold.start - begin) / step) + 1):
                text = brief(step * number) if first else f"+{brief(step * number)}"
                ticks.append(AxisTick(self.position(begin + step * number), "0" if not number else text))
            begin = fold.end
        return ticks


def fold_waits(
    start: datetime,
    end: datetime,
    waits: Iterable[TimeSpan],
    work: Iterable[TimeSpan],
    moments: Iterable[datetime] = (),
) -> FoldedAxis:
    """Make the axis on which each wait that is longer than `FOLD_FACTOR` times all work is folded.

    No work and none of `moments` is within a fold. Without work nothing is folded.
    """
    busy = sorted(work)
    limit = FOLD_FACTOR * sum((one.length for one in busy), timedelta(0))
    if not limit:
        return FoldedAxis(start, end)
    protected = sorted([*busy, *(TimeSpan(moment, moment) for moment in moments)])
    folds: list[TimeSpan] = []
    for wait in sorted(waits, key=lambda wait: (wait.start, -wait.length)):
        for piece in _without(wait, protected):
            begin = max(piece.start, folds[-1].end) if folds else piece.start
            if piece.end - begin > limit:
                folds.append(TimeSpan(begin, piece.end, f"{brief(piece.end - begin)} {wait.text}".rstrip()))
    return FoldedAxis(start, end, folds)


def _without(wait: TimeSpan, protected: Sequence[TimeSpan]) -> Iterable[TimeSpan]:
    """The parts of a wait that are outside of these spans, which are in order."""
    begin = wait.start
    for span in protected:
        if span.start >= wait.end:
            break
        if span.start > begin:
            yield TimeSpan(begin, span.start)
        begin = max(begin, span.end)
    if begin < wait.end:
        yield TimeSpan(begin, wait.end)

"""From the wall times of a rule to the moments at which it ticks, as its owner chose for clock changes.

Time is cut at the clock changes of the zone. Between two of them a wall time means one moment. At a change
forward some wall times are skipped: they are moved behind it or before it, by as much as the clock jumps, or
left out. At a change back some are shown twice: the stretch before the change, the one behind it, or both may
tick in them.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import takewhile
from typing import NamedTuple

from warrener_contracts.schedule_rules import DstOverlap, DstGap
from warrener_scheduler.calendar.instant import INSTANT
from warrener_scheduler.calendar.zones import ClockChange, last_change, next_change, offset_at

WallTimes = Callable[[datetime], Iterator[datetime]]
"""The wall times of a rule that are later than the one given, in order."""

_NOTHING = timedelta(0)
_LONGEST_CHANGE = timedelta(days=2)
_HORIZON = 2190  # the last year that is looked at


class _Stretch(NamedTuple):
    """The time between two clock changes."""

    zone: str
    offset: timedelta
    begun: ClockChange | None
    ended: ClockChange

    @property
    def skipped_before(self) -> timedelta:
        """By how much the clock jumped forward where it begins; negative: back."""
        return _NOTHING if self.begun is None else self.begun.after - self.begun.before

    @property
    def skipped_after(self) -> timedelta:
        """By how much it jumps forward where it ends; negative: back."""
        return self.ended.after - self.ended.before


def moments(
    zone: str, wall_times: WallTimes, after: datetime, skipped: DstGap, repeated: DstOverlap
) -> Iterator[datetime]:
    """The moments later than `after` at which the rule ticks, in order, each once."""
    last = after
    while True:
        stretch = _stretch(zone, last)
        for moment in _ticks(stretch, wall_times, last, skipped, repeated):
            if moment > last:
                yield moment
                last = moment
        following = _next_start(stretch, wall_times, last)
        if following is None:
            return
        last = following


def _stretch(zone: str, after: datetime) -> _Stretch:
    """The one in which the first moment after `after` lies."""
    first = after + INSTANT
    return _Stretch(zone, offset_at(zone, first), last_change(zone, first), next_change(zone, first))


def _next_start(stretch: _Stretch, wall_times: WallTimes, last: datetime) -> datetime | None:
    """Just before the next stretch in which there may be a tick; None: there is none.

    A rule may tick in a leap year alone: stretches without a wall time of it are jumped over.
    """
    beyond = max(last, stretch.ended.at - INSTANT)
    following = next(wall_times(_wall(beyond, stretch.offset) - _LONGEST_CHANGE), None)
    if following is None or following.year > _HORIZON:
        return None
    return max(beyond, following.replace(tzinfo=UTC) - stretch.offset - _LONGEST_CHANGE)


def _ticks(
    stretch: _Stretch, wall_times: WallTimes, after: datetime, skipped: DstGap, repeated: DstOverlap
) -> Iterator[datetime]:
    return merge(
        _ordinary(stretch, wall_times, after, repeated),
        _moved_behind(stretch, wall_times, after) if skipped is DstGap.AFTER else (),
        _moved_before(stretch, wall_times) if skipped is DstGap.BEFORE else (),
    )


def _ordinary(
    stretch: _Stretch, wall_times: WallTimes, after: datetime, repeated: DstOverlap
) -> Iterator[datetime]:
    """Wall times that the clock shows in this stretch, but for those that another one has."""
    low = _wall(after, stretch.offset)
    if repeated is DstOverlap.FIRST and stretch.begun is not None and stretch.skipped_before < _NOTHING:
        low = max(low, _wall(stretch.begun.at, stretch.begun.before) - INSTANT)
    end = _wall(stretch.ended.at, stretch.offset)
    if repeated is DstOverlap.LAST and stretch.skipped_after < _NOTHING:
        end += stretch.skipped_after
    times = takewhile(lambda wall: wall < end, wall_times(low))
    return (wall.replace(tzinfo=UTC) - stretch.offset for wall in times)


def _moved_behind(stretch: _Stretch, wall_times: WallTimes, after: datetime) -> Iterator[datetime]:
    """Wall times that were skipped where the stretch begins."""
    if stretch.begun is None or stretch.skipped_before <= _NOTHING:
        return iter(())
    if after >= stretch.begun.at + stretch.skipped_before:
        return iter(())  # all of them are behind us
    begin = _wall(stretch.begun.at, stretch.begun.before)
    return _between(wall_times, begin, begin + stretch.skipped_before, stretch.begun.before)


def _moved_before(stretch: _Stretch, wall_times: WallTimes) -> Iterator[datetime]:
    """Wall times that will be skipped where the stretch ends."""
    if stretch.skipped_after <= _NOTHING:
        return iter(())
    begin = _wall(stretch.ended.at, stretch.offset)
    return _between(wall_times, begin, begin + stretch.skipped_after, stretch.ended.after)


def _between(wall_times: WallTimes, begin: datetime, end: datetime, offset: timedelta) -> Iterator[datetime]:
    times = takewhile(lambda wall: wall < end, wall_times(begin - timedelta(seconds=1)))
    return (wall.replace(tzinfo=UTC) - offset for wall in times)


def _wall(moment: datetime, offset: timedelta) -> datetime:
    return (moment + offset).replace(tzinfo=None)

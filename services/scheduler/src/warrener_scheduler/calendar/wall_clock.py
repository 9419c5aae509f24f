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

from warrener_contracts.schedule_rules import DstGap, DstOverlap
from warrener_scheduler.calendar.instant import INSTANT
from warrener_scheduler.calendar.zones import ClockChange, last_change, next_change, offset_at

WallTimes = Callable[[datetime], Iterator[datetime]]
"""The wall times of a rule that are later than the one given, in order."""

_NOTHING = timedelta(0)
_MAX_CHANGE = timedelta(days=2)
_HORIZON = 2190  # the last year that is looked at


class _OffsetPeriod(NamedTuple):
    """The time between two clock changes."""

    zone: str
    offset: timedelta
    started_by: ClockChange | None
    ended_by: ClockChange

    @property
    def skipped_before(self) -> timedelta:
        """By how much the clock jumped forward where it begins; negative: back."""
        return _NOTHING if self.started_by is None else self.started_by.after - self.started_by.before

    @property
    def skipped_after(self) -> timedelta:
        """By how much it jumps forward where it ends; negative: back."""
        return self.ended_by.after - self.ended_by.before


def moments(
    zone: str, wall_times: WallTimes, after: datetime, skipped: DstGap, repeated: DstOverlap
) -> Iterator[datetime]:
    """The moments later than `after` at which the rule ticks, in order, each once."""
    last = after
    while True:
        period = _offset_period(zone, last)
        for moment in _ticks(period, wall_times, last, skipped, repeated):
            if moment > last:
                yield moment
                last = moment
        following = _next_period_start(period, wall_times, last)
        if following is None:
            return
        last = following


def _offset_period(zone: str, after: datetime) -> _OffsetPeriod:
    """The one in which the first moment after `after` lies."""
    first = after + INSTANT
    return _OffsetPeriod(zone, offset_at(zone, first), last_change(zone, first), next_change(zone, first))


def _next_period_start(period: _OffsetPeriod, wall_times: WallTimes, last: datetime) -> datetime | None:
    """Just before the next stretch in which there may be a tick; None: there is none.

    A rule may tick in a leap year alone: stretches without a wall time of it are jumped over.
    """
    beyond = max(last, period.ended_by.at - INSTANT)
    following = next(wall_times(_wall(beyond, period.offset) - _MAX_CHANGE), None)
    if following is None or following.year > _HORIZON:
        return None
    return max(beyond, following.replace(tzinfo=UTC) - period.offset - _MAX_CHANGE)


def _ticks(
    period: _OffsetPeriod, wall_times: WallTimes, after: datetime, skipped: DstGap, repeated: DstOverlap
) -> Iterator[datetime]:
    return merge(
        _ordinary(period, wall_times, after, repeated),
        _moved_behind(period, wall_times, after) if skipped is DstGap.AFTER else (),
        _moved_before(period, wall_times) if skipped is DstGap.BEFORE else (),
    )


def _ordinary(
    period: _OffsetPeriod, wall_times: WallTimes, after: datetime, repeated: DstOverlap
) -> Iterator[datetime]:
    """Wall times that the clock shows in this stretch, but for those that another one has."""
    low = _wall(after, period.offset)
    if repeated is DstOverlap.FIRST and period.started_by is not None and period.skipped_before < _NOTHING:
        low = max(low, _wall(period.started_by.at, period.started_by.before) - INSTANT)
    end = _wall(period.ended_by.at, period.offset)
    if repeated is DstOverlap.LAST and period.skipped_after < _NOTHING:
        end += period.skipped_after
    times = takewhile(lambda wall: wall < end, wall_times(low))
    return (wall.replace(tzinfo=UTC) - period.offset for wall in times)


def _moved_behind(period: _OffsetPeriod, wall_times: WallTimes, after: datetime) -> Iterator[datetime]:
    """Wall times that were skipped where the stretch begins."""
    if period.started_by is None or period.skipped_before <= _NOTHING:
        return iter(())
    if after >= period.started_by.at + period.skipped_before:
        return iter(())  # all of them are behind us
    begin = _wall(period.started_by.at, period.started_by.before)
    return _between(wall_times, begin, begin + period.skipped_before, period.started_by.before)


def _moved_before(period: _OffsetPeriod, wall_times: WallTimes) -> Iterator[datetime]:
    """Wall times that will be skipped where the stretch ends."""
    if period.skipped_after <= _NOTHING:
        return iter(())
    begin = _wall(period.ended_by.at, period.offset)
    return _between(wall_times, begin, begin + period.skipped_after, period.ended_by.after)


def _between(wall_times: WallTimes, begin: datetime, end: datetime, offset: timedelta) -> Iterator[datetime]:
    times = takewhile(lambda wall: wall < end, wall_times(begin - timedelta(seconds=1)))
    return (wall.replace(tzinfo=UTC) - offset for wall in times)


def _wall(moment: datetime, offset: timedelta) -> datetime:
    return (moment + offset).replace(tzinfo=None)

"""Clock changes: the moments at which a wall-clock rule ticks, by the choices of its owner.

Time is cut at the clock changes of the zone. Between two of them a wall time means one moment. A change
forward skips some wall times: they move behind the change or before it, by as much as the clock jumps, or are
left out. A change back shows some wall times twice: the period before the change, the period after it, or
both may tick in them. Pure.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from typing import NamedTuple

from warrener_calendar import cron, wall_rules
from warrener_calendar.wall_rules import RuleKind, rule_kind
from warrener_calendar.zones import ClockChange, changes_of, last_change, next_change, offset_at
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, DstGap, DstOverlap, Rule, RulePart, child_rules

WallTimes = Callable[[datetime], Iterator[datetime]]
"""Yields the wall times of a rule later than the given one, in order."""
_NOTHING = timedelta(0)
_SECOND = timedelta(seconds=1)
_MAX_CHANGE = timedelta(days=2)
_HORIZON = 2190  # the last year of the calendar
_LOOK_BACK = timedelta(days=2)
_MAX_TIMES = 200  # wall times of one clock change: a rule that ticks each second would have thousands


class _OffsetPeriod(NamedTuple):
    """The time between two clock changes."""

    zone: str
    offset: timedelta
    started_by: ClockChange | None
    ended_by: ClockChange

    @property
    def skipped_before(self) -> timedelta:
        """Jump of the clock at the beginning of the period; negative: back."""
        return _NOTHING if self.started_by is None else self.started_by.after - self.started_by.before

    @property
    def skipped_after(self) -> timedelta:
        """Jump of the clock at the end of the period; negative: back."""
        return self.ended_by.after - self.ended_by.before


def moments(
    zone: str, wall_times: WallTimes, after: datetime, skipped: DstGap, repeated: DstOverlap
) -> Iterator[datetime]:
    """Yield the moments later than `after` at which the rule ticks, in order, each once."""
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
    """Return the period of the first moment after `after`."""
    first = after + timedelta.resolution
    return _OffsetPeriod(zone, offset_at(zone, first), last_change(zone, first), next_change(zone, first))


def _next_period_start(period: _OffsetPeriod, wall_times: WallTimes, last: datetime) -> datetime | None:
    """Return the moment just before the next period that may have a tick; None if there is none.

    A rule may tick in leap years alone: periods without one of its wall times are skipped.
    """
    beyond = max(last, period.ended_by.at - timedelta.resolution)
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
    """Yield the wall times that the clock shows in this period, without those that belong to another one."""
    low = _wall(after, period.offset)
    if repeated is DstOverlap.FIRST and period.started_by is not None and period.skipped_before < _NOTHING:
        low = max(low, _wall(period.started_by.at, period.started_by.before) - timedelta.resolution)
    end = _wall(period.ended_by.at, period.offset)
    if repeated is DstOverlap.LAST and period.skipped_after < _NOTHING:
        end += period.skipped_after
    times = takewhile(lambda wall: wall < end, wall_times(low))
    return (wall.replace(tzinfo=UTC) - period.offset for wall in times)


def _moved_behind(period: _OffsetPeriod, wall_times: WallTimes, after: datetime) -> Iterator[datetime]:
    """Yield the wall times that the change at the beginning of the period skipped."""
    if period.started_by is None or period.skipped_before <= _NOTHING:
        return iter(())
    if after >= period.started_by.at + period.skipped_before:
        return iter(())  # they have all ticked
    begin = _wall(period.started_by.at, period.started_by.before)
    return _between(wall_times, begin, begin + period.skipped_before, period.started_by.before)


def _moved_before(period: _OffsetPeriod, wall_times: WallTimes) -> Iterator[datetime]:
    """Yield the wall times that the change at the end of the period will skip."""
    if period.skipped_after <= _NOTHING:
        return iter(())
    begin = _wall(period.ended_by.at, period.offset)
    return _between(wall_times, begin, begin + period.skipped_after, period.ended_by.after)


def _between(wall_times: WallTimes, begin: datetime, end: datetime, offset: timedelta) -> Iterator[datetime]:
    times = takewhile(lambda wall: wall < end, wall_times(begin - timedelta(seconds=1)))
    return (wall.replace(tzinfo=UTC) - offset for wall in times)


def _wall(moment: datetime, offset: timedelta) -> datetime:
    return (moment + offset).replace(tzinfo=None)


# -- what a rule meets at clock changes ---------------------------------------------------------------------


class DstTransition(NamedTuple):
    """A clock change, a wall time of the rule that the change skips or repeats, and the resulting moments."""

    change: ClockChange
    wall: datetime
    moments: tuple[datetime, ...]

    @property
    def skipped(self) -> bool:
        """False if the wall time comes twice."""
        return self.change.after > self.change.before


def find_dst_transitions(spec: SchedulePutData, begin: datetime, end: datetime) -> Iterator[DstTransition]:
    """Yield the transitions between two moments. A rule that ticks alike through a change has none there."""
    years = range(begin.year, end.year + 1)
    changes = [change for year in years for change in changes_of(spec.timezone, year)]
    for times in map(_wall_times, _by_wall_clock(spec.rule)):
        for change in (one for one in changes if begin < one.at < end):
            yield from _of_change(spec, times, change)


def _by_wall_clock(rule: Rule | RulePart) -> Iterator[Rule | RulePart]:
    """Yield the largest parts of the rule that tick by the wall clock alone."""
    match rule_kind(rule):
        case RuleKind.WALL:
            yield rule
        case RuleKind.ELAPSED:
            for part in child_rules(rule):
                yield from _by_wall_clock(part)
        case RuleKind.DAYS:
            pass


def _wall_times(rule: Rule | RulePart) -> WallTimes:
    if isinstance(rule, CronRule):
        return partial(cron.wall_times, rule.expression)
    return partial(wall_rules.wall_times, wall_rules.times_of_day(rule))


def _of_change(spec: SchedulePutData, times: WallTimes, change: ClockChange) -> Iterator[DstTransition]:
    begin, end = sorted((change.at + offset).replace(tzinfo=None) for offset in (change.before, change.after))
    ticks = takewhile(lambda wall: wall < end, times(begin - _SECOND))
    for wall in islice(ticks, _MAX_TIMES):
        transition = DstTransition(change, wall, tuple(_resulting_moments(spec, wall, change)))
        if not _is_unnoticed(transition, times, end - begin):
            yield transition


def _resulting_moments(spec: SchedulePutData, wall: datetime, change: ClockChange) -> Iterator[datetime]:
    def only(after: datetime) -> Iterator[datetime]:
        return iter((wall,) if wall > after else ())

    skipped, repeated = spec.choices.dst_gap, spec.choices.dst_overlap
    return moments(spec.timezone, only, change.at - _LOOK_BACK, skipped, repeated)


def _is_unnoticed(transition: DstTransition, times: WallTimes, jump: timedelta) -> bool:
    """True if the rule also ticks at the time from which or to which the clock moved the wall time.

    Then the rule goes on as if the clock had not changed, unless it is silent for as long as the time is
    repeated.
    """
    beside = (transition.wall - jump, transition.wall + jump)
    steady = all(next(times(near - _SECOND), None) == near for near in beside)
    return steady and (transition.skipped or len(transition.moments) == 2)

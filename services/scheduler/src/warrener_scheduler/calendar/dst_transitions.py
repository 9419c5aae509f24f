"""Where a rule by the wall clock meets clock changes: wall times that are skipped or come twice, and what the
choices of the schedule make of them. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple

from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, Rule, RulePart, child_rules
from warrener_scheduler.calendar import cron
from warrener_scheduler.calendar.times_of_day import wall_times
from warrener_scheduler.calendar.wall_clock import WallTimes, moments
from warrener_scheduler.calendar.wall_rules import RuleKind, rule_kind, times_of_day
from warrener_scheduler.calendar.zones import ClockChange, changes_of

_SECOND = timedelta(seconds=1)
_LOOK_BACK = timedelta(days=2)
_MAX_TIMES = 200
"""Of one clock change: a rule that ticks each second would have thousands."""


class DstTransition(NamedTuple):
    """A clock change, a wall time of the rule that it skips or repeats, and the moments made of that."""

    change: ClockChange
    wall: datetime
    moments: tuple[datetime, ...]

    @property
    def skipped(self) -> bool:
        """Otherwise the wall time comes twice."""
        return self.change.after > self.change.before


def find_dst_transitions(spec: SchedulePutData, begin: datetime, end: datetime) -> Iterator[DstTransition]:
    """Those between two moments. A rule that goes on alike through the change meets none."""
    years = range(begin.year, end.year + 1)
    changes = [change for year in years for change in changes_of(spec.timezone, year)]
    for times in map(_wall_times, _by_wall_clock(spec.rule)):
        for change in (one for one in changes if begin < one.at < end):
            yield from _of_change(spec, times, change)


def _by_wall_clock(rule: Rule | RulePart) -> Iterator[Rule | RulePart]:
    """The greatest parts of it that tick by the wall clock alone."""
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
    return partial(wall_times, times_of_day(rule))


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

    skipped, repeated = spec.choices.skipped_hour, spec.choices.repeated_hour
    return moments(spec.timezone, only, change.at - _LOOK_BACK, skipped, repeated)


def _is_unnoticed(transition: DstTransition, times: WallTimes, jump: timedelta) -> bool:
    """Whether the rule ticks as well where the time was moved from or to: then it goes on as if there were no
    change, unless it is silent for as long as the time is repeated."""
    beside = (transition.wall - jump, transition.wall + jump)
    steady = all(next(times(near - _SECOND), None) == near for near in beside)
    return steady and (transition.skipped or len(transition.moments) == 2)

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
from warrener_scheduler.calendar.wall_rules import Nature, nature, times_of_day
from warrener_scheduler.calendar.zones import ClockChange, changes_of

_SECOND = timedelta(seconds=1)
_LONG_BEFORE = timedelta(days=2)
_MOST_TIMES = 200
"""Of one clock change: a rule that ticks each second would have thousands."""


class Meeting(NamedTuple):
    """A clock change, a wall time of the rule that it skips or repeats, and the moments made of that."""

    change: ClockChange
    wall: datetime
    moments: tuple[datetime, ...]

    @property
    def skipped(self) -> bool:
        """Otherwise the wall time comes twice."""
        return self.change.after > self.change.before


def meetings(asked: SchedulePutData, begin: datetime, end: datetime) -> Iterator[Meeting]:
    """Those between two moments. A rule that goes on alike through the change meets none."""
    years = range(begin.year, end.year + 1)
    changes = [change for year in years for change in changes_of(asked.timezone, year)]
    for times in map(_wall_times, _by_wall_clock(asked.rule)):
        for change in (one for one in changes if begin < one.at < end):
            yield from _of_change(asked, times, change)


def _by_wall_clock(rule: Rule | RulePart) -> Iterator[Rule | RulePart]:
    """The greatest parts of it that tick by the wall clock alone."""
    match nature(rule):
        case Nature.WALL:
            yield rule
        case Nature.ELAPSED:
            for part in child_rules(rule):
                yield from _by_wall_clock(part)
        case Nature.DAYS:
            pass


def _wall_times(rule: Rule | RulePart) -> WallTimes:
    if isinstance(rule, CronRule):
        return partial(cron.wall_times, rule.expression)
    return partial(wall_times, times_of_day(rule))


def _of_change(asked: SchedulePutData, times: WallTimes, change: ClockChange) -> Iterator[Meeting]:
    begin, end = sorted((change.at + offset).replace(tzinfo=None) for offset in (change.before, change.after))
    ticks = takewhile(lambda wall: wall < end, times(begin - _SECOND))
    for wall in islice(ticks, _MOST_TIMES):
        meeting = Meeting(change, wall, tuple(_made_of(asked, wall, change)))
        if not _unnoticed(meeting, times, end - begin):
            yield meeting


def _made_of(asked: SchedulePutData, wall: datetime, change: ClockChange) -> Iterator[datetime]:
    def only(after: datetime) -> Iterator[datetime]:
        return iter((wall,) if wall > after else ())

    skipped, repeated = asked.choices.skipped_hour, asked.choices.repeated_hour
    return moments(asked.timezone, only, change.at - _LONG_BEFORE, skipped, repeated)


def _unnoticed(meeting: Meeting, times: WallTimes, jump: timedelta) -> bool:
    """Whether the rule ticks as well where the time was moved from or to: then it goes on as if there were no
    change, unless it is silent for as long as the time is repeated."""
    beside = (meeting.wall - jump, meeting.wall + jump)
    steady = all(next(times(near - _SECOND), None) == near for near in beside)
    return steady and (meeting.skipped or len(meeting.moments) == 2)

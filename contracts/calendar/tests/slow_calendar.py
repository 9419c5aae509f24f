"""Independent, slow statements of when a rule ticks: `ticks_at` and `slow_ticks` look at every wall minute of
some days, each day by itself, and use neither cronsim nor our calendar. And other crons at clock changes:
cronsim and croniter as they are, models of croniter as it is seen and of Debian's cron(8) as documented."""

from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from croniter import croniter  # type: ignore[import-untyped]
from cronsim import CronSim

from warrener_calendar.zones import zone_file
from warrener_contracts import schedule_rules

MINUTE = timedelta(minutes=1)
Span = tuple[datetime, datetime]
Reading = tuple[datetime, datetime]
Choice = tuple[schedule_rules.DstGap, schedule_rules.DstOverlap]


def slow_walls(
    ticks_at: Callable[[datetime], bool], span: Span, beyond: timedelta = timedelta(days=2)
) -> list[datetime]:
    """The wall minutes that may lie in a span of UTC, in whatever zone, and at which a rule ticks. No clock
    is further from UTC, nor jumps further, than `beyond`."""
    begin, end = (moment.replace(tzinfo=None) for moment in span)
    wall, stop = begin - beyond, end + beyond
    found: list[datetime] = []
    while wall < stop:
        if ticks_at(wall):
            found.append(wall)
        wall += MINUTE
    return found


def slow_ticks(zone: ZoneInfo, walls: Iterable[datetime], span: Span, choices: Choice) -> list[datetime]:
    """The moments of these wall times that lie in the span, by PEP 495 alone."""
    return chosen(readings(zone, walls), span, choices)


def readings(zone: ZoneInfo, walls: Iterable[datetime]) -> list[Reading]:
    """Each wall time read by the clock before a change (fold=0) and by the one after it (fold=1)."""
    aware = (wall.replace(tzinfo=zone) for wall in walls)
    return [(wall.astimezone(UTC), wall.replace(fold=1).astimezone(UTC)) for wall in aware]


def chosen(found: Iterable[Reading], span: Span, choices: Choice) -> list[datetime]:
    begin, end = span
    moments = {moment for early, late in found for moment in _of_reading(early, late, *choices)}
    return sorted(moment for moment in moments if begin < moment < end)


def _of_reading(
    early: datetime, late: datetime, skipped: schedule_rules.DstGap, repeated: schedule_rules.DstOverlap
) -> Iterator[datetime]:
    if early == late:
        yield early
    elif early > late:  # the clock never shows it
        if skipped is schedule_rules.DstGap.AFTER:
            yield early
        elif skipped is schedule_rules.DstGap.BEFORE:
            yield late
    else:
        if repeated is not schedule_rules.DstOverlap.LAST:
            yield early
        if repeated is not schedule_rules.DstOverlap.FIRST:
            yield late


@cache
def changes(zone: ZoneInfo, year: int) -> list[datetime]:
    """Hours of a year in which the clock changes, found by looking at each."""
    hour, found = datetime(year, 1, 1, tzinfo=UTC), list[datetime]()
    before = hour.astimezone(zone).utcoffset()
    while hour.year == year:
        following = hour + timedelta(hours=1)
        after = following.astimezone(zone).utcoffset()
        if after != before:
            found.append(hour)
        hour, before = following, after
    return found


_DAY = timedelta(days=1)
_NAMES = list(schedule_rules.Weekday)


def ticks_at(rule: schedule_rules.Rule | schedule_rules.RulePart, wall: datetime) -> bool:
    """For rules in whole minutes; a set of days ticks at every minute that it holds."""
    match rule:
        case schedule_rules.CronRule(expression=expression):
            return _cron(expression, wall)
        case schedule_rules.BusinessDaysRule():
            return wall.time() in rule.at and _business_day(rule, wall.date())
        case schedule_rules.DaysRule():
            return _held(rule, wall)
        case schedule_rules.AnyOfRule():
            return any(ticks_at(part, wall) for part in rule.rules)
        case schedule_rules.AllOfRule():
            return all(ticks_at(part, wall) for part in rule.rules)
        case schedule_rules.ExceptRule():
            return ticks_at(rule.rule, wall) and not any(ticks_at(part, wall) for part in rule.without)
        case _:
            raise AssertionError(f"{rule.kind} knows no wall clock")


def _cron(expression: str, wall: datetime) -> bool:
    minute, hour, day, month, weekday = expression.split()
    if not (_among(minute, wall.minute) and _among(hour, wall.hour) and _among(month, wall.month)):
        return False
    by_month = any(_day_of_month(term, wall.date()) for term in day.split(","))
    by_week = _among(weekday, wall.isoweekday() % 7) or _among(weekday, wall.isoweekday())
    both = day.startswith("*") or weekday.startswith("*")
    return (by_month and by_week) if both else (by_month or by_week)


def _among(field: str, number: int) -> bool:
    return field == "*" or str(number) in field.split(",")


def _day_of_month(term: str, day: date) -> bool:
    last = monthrange(day.year, day.month)[1]
    if term == "L":
        return day.day == last
    if term.endswith("W"):
        return day == _nearest_weekday(term.removesuffix("W"), day, last)
    return _among(term, day.day)


def _nearest_weekday(wanted: str, day: date, last: int) -> date | None:
    """Of all weekdays of this month the one that is the least days away."""
    target = last if wanted == "L" else int(wanted)
    weekdays = [n for n in range(1, last + 1) if day.replace(day=n).isoweekday() < 6]
    if wanted == "L":
        return day.replace(day=weekdays[-1])
    return day.replace(day=min(weekdays, key=lambda n: abs(n - target))) if target <= last else None


def _held(rule: schedule_rules.DaysRule, wall: datetime) -> bool:
    on = not rule.weekdays or _NAMES[wall.weekday()] in rule.weekdays
    on = on and (not rule.months or wall.month in rule.months)
    on = on and (not rule.dates or wall.date() in rule.dates)
    now, since, until = wall.time(), rule.since, rule.until
    if since and until and until < since:
        return on and (now >= since or now < until)
    return on and (since is None or now >= since) and (until is None or now < until)


def _is_business(rule: schedule_rules.BusinessDaysRule, day: date) -> bool:
    return _NAMES[day.weekday()] in rule.weekdays and day not in rule.holidays


def _business_day(rule: schedule_rules.BusinessDaysRule, day: date) -> bool:
    if not _is_business(rule, day):
        return False
    if rule.nth:
        month = [found for found in _month_of(day) if _is_business(rule, found)]
        first, last = month.index(day) + 1, month.index(day) - len(month)
        return (not rule.months or day.month in rule.months) and (first in rule.nth or last in rule.nth)
    if not rule.days:
        return not rule.months or day.month in rule.months
    around = (day + n * _DAY for n in range(-31, 32))
    return any(
        target.day in rule.days
        and (not rule.months or target.month in rule.months)
        and _goes_to(rule, target) == day
        for target in around
    )


def _month_of(day: date) -> Iterator[date]:
    for number in range(1, monthrange(day.year, day.month)[1] + 1):
        yield day.replace(day=number)


def _goes_to(rule: schedule_rules.BusinessDaysRule, target: date) -> date | None:
    if _is_business(rule, target):
        return target
    near = [target + n * _DAY for n in range(-31, 32) if _is_business(rule, target + n * _DAY)]
    before, after = [day for day in near if day < target], [day for day in near if day > target]
    match rule.business_day_convention:
        case schedule_rules.BusinessDayConvention.SKIP:
            return None
        case schedule_rules.BusinessDayConvention.BEFORE:
            return max(before, default=None)
        case schedule_rules.BusinessDayConvention.AFTER:
            return min(after, default=None)
        case schedule_rules.BusinessDayConvention.NEAREST:
            return min(near, key=lambda day: (abs(day - target), day), default=None)


def cronsim_ticks(zone: ZoneInfo, expression: str, span: Span) -> list[datetime]:
    """Return the ticks of cronsim, which gets an aware time."""
    return _between(span, CronSim(expression, span[0].astimezone(zone)))


def croniter_ticks(zone: ZoneInfo, expression: str, span: Span) -> list[datetime]:
    """Return the ticks of croniter, likewise."""
    times: Any = croniter(expression, span[0].astimezone(zone), ret_type=datetime)
    return _between(span, times)


def debian_ticks(zone: ZoneInfo, expression: str, walls: Iterable[datetime], span: Span) -> list[datetime]:
    """Return the ticks of Debian's cron as documented, from the wall minutes that its fields name.

    Jobs with neither @hourly nor a `*` in the hour or minute run soon after a change that skips them, and not
    again in the time that is repeated; all others go by what the clock shows.
    """
    fixed = is_fixed(expression)
    return _of_walls(zone, [*walls], span, late=fixed, twice=not fixed)


def croniter_model(zone: ZoneInfo, expression: str, walls: Iterable[datetime], span: Span) -> list[datetime]:
    """What croniter is seen to do: a skipped time runs at the change unless the hour is `*`, a repeated one
    twice."""
    return _of_walls(zone, [*walls], span, late=expression.split()[1] != "*", twice=True)


def _of_walls(
    zone: ZoneInfo, walls: list[datetime], span: Span, *, late: bool, twice: bool
) -> list[datetime]:
    found = set[datetime]()
    for wall, (early, other) in zip(walls, readings(zone, walls), strict=True):
        if early > other:
            found |= {_shown_again(zone, wall)} if late else set()
        else:
            found |= {early, other} if twice else {early}
    return sorted(moment for moment in found if span[0] < moment < span[1])


def is_fixed(expression: str) -> bool:
    """True if it runs at particular times, as Debian's cron sees it."""
    minute, hour = expression.split()[:2]
    return not (minute.startswith("*") or hour.startswith("*"))


def _shown_again(zone: ZoneInfo, wall: datetime) -> datetime:
    """The moment of the change that skips this wall time: the first minute that the clock shows after it."""
    while (moment := wall.replace(tzinfo=zone).astimezone(UTC)).astimezone(zone).replace(tzinfo=None) != wall:
        wall += MINUTE
    return moment


def _between(span: Span, times: Iterator[datetime]) -> list[datetime]:
    moments = takewhile(span[1].__gt__, (one.astimezone(UTC) for one in times))
    return [moment for moment in moments if moment > span[0]]


ZONES = sorted(available_timezones() - {"localtime", "posixrules", "Factory"})
DISTINCT = sorted({zone_file(name): name for name in reversed(ZONES)}.values())
"""One name for each of them that has several: what the database says is the same."""
YEARS = range(2020, 2038)


def around(change: datetime) -> tuple[datetime, datetime]:
    """Longer than any clock has ever jumped, on both sides."""
    return change - timedelta(hours=30), change + timedelta(hours=30)

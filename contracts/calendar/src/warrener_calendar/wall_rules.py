"""Rules by the wall clock, as the times of each day: bit n of a number is the second n since midnight.

So the intersection of rules and the removal of one from another are `&` and `~` for all kinds of rules, and a
day costs the same for one tick or a tick each second. Rules are combined by the wall clock, so that a clock
change applies once, to the result. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from enum import Enum

from warrener_calendar import cron
from warrener_calendar.business_days import make_day_filter
from warrener_contracts import schedule_rules

TimesOfDay = Callable[[date], int]
"""The times of each day, by the wall clock."""
_SECONDS = 86_400
NO_TIME = 0
ALL_DAY = (1 << _SECONDS) - 1
_DAY = timedelta(days=1)
_MAX_SILENCE = timedelta(days=60 * 366)
"""Days and weekdays of the Gregorian calendar repeat within 40 years: a rule that is silent for longer never
ticks again."""
_WEEKDAYS = tuple(schedule_rules.Weekday)


class BadCombination(ValueError):
    """These rules cannot be combined in this way."""


class TooManySteps(ValueError):
    """The ticks of a rule take longer to find than a question may."""


class Steps:
    """Bounds how many days one question looks at, so that no rule can block its process for long."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0

    def count(self, times: TimesOfDay) -> TimesOfDay:
        """Return the same times of each day. They raise TooManySteps beyond the limit."""

        def counted(day: date) -> int:
            self._taken += 1
            if self._taken > self._limit:
                raise TooManySteps(
                    f"expected a rule whose ticks are found among {self._limit:,} days, got one that needs "
                    "more; make the rule simpler"
                )
            return times(day)

        return counted


class RuleKind(Enum):
    """The part that a rule plays in a combination."""

    DAYS = "days"  # a set of days, without a tick of its own
    WALL = "wall"  # ticks by the wall clock
    ELAPSED = "elapsed"  # ticks, at least in part, at moments that depend on no wall clock


def rule_kind(rule: schedule_rules.Rule | schedule_rules.RulePart) -> RuleKind:
    """Return the kind of a rule. Raises BadCombination if its parts do not fit together."""
    kinds = [rule_kind(part) for part in schedule_rules.child_rules(rule)]
    match rule:
        case schedule_rules.DaysRule():
            return RuleKind.DAYS
        case schedule_rules.CronRule() | schedule_rules.BusinessDaysRule():
            return RuleKind.WALL
        case schedule_rules.AnyOfRule():
            return _of_any(kinds)
        case schedule_rules.AllOfRule():
            return _of_all(kinds)
        case schedule_rules.ExceptRule():
            return _of_except(kinds)
        case _:
            return RuleKind.ELAPSED


def times_of_day(rule: schedule_rules.Rule | schedule_rules.RulePart) -> TimesOfDay:
    """Return the times of the rule on each day; for a set of days, the times that it includes.

    The rule must not be ELAPSED.
    """
    parts = [times_of_day(part) for part in schedule_rules.child_rules(rule)]
    match rule:
        case schedule_rules.CronRule(expression=expression):
            return _of_cron(cron.parse_cron(expression))
        case schedule_rules.BusinessDaysRule():
            return _of_business_days(rule)
        case schedule_rules.DaysRule():
            return _of_days(rule)
        case schedule_rules.AnyOfRule():
            return any_of(parts)
        case schedule_rules.AllOfRule():
            return all_of(parts)
        case schedule_rules.ExceptRule():
            return all_of((parts[0], nothing_of(parts[1:])))
        case _:
            raise BadCombination(f"expected a rule by the wall clock, got one of kind {rule.kind!r}")


def any_of(parts: Sequence[TimesOfDay]) -> TimesOfDay:
    """Return the times that one of the parts has."""

    def times(day: date) -> int:
        found = NO_TIME
        for part in parts:
            found |= part(day)
        return found

    return times


def all_of(parts: Sequence[TimesOfDay]) -> TimesOfDay:
    """Return the times that all parts have."""

    def times(day: date) -> int:
        found = ALL_DAY
        for part in parts:
            if not (found := found & part(day)):
                break
        return found

    return times


def nothing_of(parts: Sequence[TimesOfDay]) -> TimesOfDay:
    """Return the times that none of the parts has."""
    taken = any_of(parts)
    return lambda day: ALL_DAY & ~taken(day)


def wall_times(times: TimesOfDay, after: datetime) -> Iterator[datetime]:
    """Yield the times later than `after`, in order, until there is none for 60 years."""
    day, begun = after.date(), _second_of(after.time()) + 1
    silent_since = day
    while day - silent_since <= _MAX_SILENCE:
        midnight = datetime.combine(day, time.min)
        for second in _bits(times(day) >> begun << begun):
            yield midnight + timedelta(seconds=second)
            silent_since = day
        day, begun = day + _DAY, 0


def holds(times: TimesOfDay, wall: datetime) -> bool:
    """True if the second of this wall time is among the times."""
    return bool(times(wall.date()) >> _second_of(wall.time()) & 1)


def _of_any(kinds: Sequence[RuleKind]) -> RuleKind:
    if RuleKind.DAYS in kinds and len(set(kinds)) > 1:
        raise BadCombination(
            "expected any_of rules that tick, or of days alone, got both: days tick at no time of their own; "
            "put them into all_of, together with the rule that they narrow"
        )
    return RuleKind.ELAPSED if RuleKind.ELAPSED in kinds else kinds[0]


def _of_all(kinds: Sequence[RuleKind]) -> RuleKind:
    ticking = [one for one in kinds if one is not RuleKind.DAYS]
    if RuleKind.ELAPSED in ticking and len(ticking) > 1:
        raise BadCombination(
            "expected all_of with an interval or a single time to have nothing but days beside it, got "
            "another rule that ticks: both would have to tick in one instant; say its times as days, with "
            "since and until"
        )
    return ticking[0] if ticking else RuleKind.DAYS


def _of_except(kinds: Sequence[RuleKind]) -> RuleKind:
    mine, others = kinds[0], kinds[1:]
    allowed = {RuleKind.DAYS, RuleKind.WALL} if mine is RuleKind.WALL else {RuleKind.DAYS}
    if not allowed.issuperset(others):
        expected = "rules by the wall clock and days" if mine is RuleKind.WALL else "days alone"
        raise BadCombination(
            f"expected except to take {expected} away from such a rule, got a rule that ticks otherwise: "
            "say its times as days, with dates, since and until"
        )
    return mine


def _of_cron(expression: cron.Cron) -> TimesOfDay:
    times = _product(expression.hours, expression.minutes, expression.seconds)
    return lambda day: times if expression.match_date(day) else NO_TIME


def _of_business_days(rule: schedule_rules.BusinessDaysRule) -> TimesOfDay:
    times, ticks_on = _these(rule.at), make_day_filter(rule)
    return lambda day: times if ticks_on(day) else NO_TIME


def _of_days(rule: schedule_rules.DaysRule) -> TimesOfDay:
    times = _between(rule.since, rule.until) if rule.since or rule.until else ALL_DAY
    weekdays = frozenset(_WEEKDAYS.index(name) for name in rule.weekdays or _WEEKDAYS)
    months, dates = frozenset(rule.months or range(1, 13)), frozenset(rule.dates)

    def held(day: date) -> bool:
        return day.weekday() in weekdays and day.month in months and (not dates or day in dates)

    return lambda day: times if held(day) else NO_TIME


def _second_of(at: time) -> int:
    return (at.hour * 60 + at.minute) * 60 + at.second


def _these(times: Iterable[time]) -> int:
    found = NO_TIME
    for at in times:
        found |= 1 << _second_of(at)
    return found


def _product(hours: Iterable[int], minutes: Iterable[int], seconds: Iterable[int]) -> int:
    """Return each of the seconds in each of the minutes in each of the hours."""
    minute = sum(1 << second for second in set(seconds))
    hour = sum(minute << 60 * number for number in set(minutes))
    return sum(hour << 3600 * number for number in set(hours))


def _between(since: time | None, until: time | None) -> int:
    """Return the times from `since` until, without, `until`; past midnight if `until` is the earlier one."""
    low = _second_of(since or time.min)
    high = _SECONDS if until is None else _second_of(until)
    if low < high:
        return (1 << high) - (1 << low)
    return ALL_DAY & ~((1 << low) - (1 << high))


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest

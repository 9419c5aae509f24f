"""The days of a business-day rule: all of them, the n-th of each month, or days that roll to one. Pure."""

from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import lru_cache

from warrener_contracts.schedule_rules import BusinessDayConvention, BusinessDaysRule, Weekday

_DAY = timedelta(days=1)
_MAX_ROLL_DAYS = 31  # a business day that far away replaces no other
_WEEKDAYS = tuple(Weekday)


def make_day_filter(rule: BusinessDaysRule) -> Callable[[date], bool]:
    """Return a function that is true for the days on which the rule ticks."""
    business = _BusinessDayCheck(rule)
    if not (rule.nth or rule.days):
        return lambda day: _in_months(rule, day.month) and business(day)
    chosen = _nth_days_of_month if rule.nth else _rolled_days_of_month

    @lru_cache(maxsize=64)
    def of_month(year: int, month: int) -> frozenset[date]:
        return frozenset(chosen(rule, business, year, month))

    months = range(-1, 2) if rule.days else range(1)  # a day may roll over from the months beside
    return lambda day: any(day in of_month(*_month(day, beside)) for beside in months)


class _BusinessDayCheck:
    """True for business days."""

    def __init__(self, rule: BusinessDaysRule) -> None:
        self._weekdays = frozenset(_WEEKDAYS.index(name) for name in rule.weekdays)
        self._holidays = frozenset(rule.holidays)

    def __call__(self, day: date) -> bool:
        return day.weekday() in self._weekdays and day not in self._holidays


def _in_months(rule: BusinessDaysRule, month: int) -> bool:
    return not rule.months or month in rule.months


def _month(day: date, beside: int) -> tuple[int, int]:
    number = day.year * 12 + day.month - 1 + beside
    return number // 12, number % 12 + 1


def _nth_days_of_month(
    rule: BusinessDaysRule, business: _BusinessDayCheck, year: int, month: int
) -> Iterator[date]:
    if not _in_months(rule, month):
        return
    days = (date(year, month, number) for number in range(1, monthrange(year, month)[1] + 1))
    found = [day for day in days if business(day)]
    for nth in rule.nth:
        place = nth - 1 if nth > 0 else nth + len(found)
        if 0 <= place < len(found):
            yield found[place]


def _rolled_days_of_month(
    rule: BusinessDaysRule, business: _BusinessDayCheck, year: int, month: int
) -> Iterator[date]:
    """Yield the days to which the chosen days of this month roll."""
    if not _in_months(rule, month):
        return
    last = monthrange(year, month)[1]
    for number in rule.days:
        rolled = (
            _roll(rule.business_day_convention, business, date(year, month, number))
            if number <= last
            else None
        )
        if rolled is not None:
            yield rolled


def _roll(
    business_day_convention: BusinessDayConvention, business: _BusinessDayCheck, day: date
) -> date | None:
    if business(day):
        return day
    before, after = _nearest_business_day(business, day, -_DAY), _nearest_business_day(business, day, _DAY)
    match business_day_convention:
        case BusinessDayConvention.SKIP:
            return None
        case BusinessDayConvention.BEFORE:
            return before
        case BusinessDayConvention.AFTER:
            return after
        case BusinessDayConvention.NEAREST:
            if before is None or after is None:
                return before or after
            return before if day - before <= after - day else after


def _nearest_business_day(business: _BusinessDayCheck, day: date, step: timedelta) -> date | None:
    """Return the first business day behind `day`, in steps of a day back or forward."""
    return next((found for n in range(1, _MAX_ROLL_DAYS + 1) if business(found := day + n * step)), None)

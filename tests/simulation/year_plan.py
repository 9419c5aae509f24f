"""A thousand schedules, and each of their nominal times in a year by plain reckoning with dates: nothing here
knows cron or asks the scheduler's calendar."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, IntervalRule, OnceRule, Rule

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2027, 1, 1, tzinfo=UTC)
ZONES = (
    *(
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "America/St_Johns",
    ),
    *("Africa/Casablanca", "Pacific/Chatham", "Asia/Tokyo", "America/Sao_Paulo"),
)
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Planned:
    """A schedule and the nominal times that it must have from BEGIN on and before END."""

    definition: SchedulePutData
    times: frozenset[datetime]


def the_thousand() -> list[Planned]:
    """Hourly, every so many hours, daily, on working days, weekly, monthly, on the last day, in each quarter,
    once a year and once at all; by ten zones, some with clock changes of an hour and one of half an hour."""
    planned = [
        *_by_zone("hourly", 2, lambda _: "0 * * * *", _hourly),
        *_by_zone("daily", 20, lambda n: f"{_minute(n)} {n % 24} * * *", lambda n: _at(n, _any_day)),
        *_by_zone("working", 20, lambda n: f"{_minute(n)} 2 * * MON-FRI", lambda n: _two(n, _working_day)),
        *_by_zone("weekly", 200, lambda n: f"{_minute(n)} {n % 24} * * SUN", lambda n: _at(n, _sunday)),
        *_by_zone("monthly", 340, lambda n: f"{_minute(n)} {n % 24} 1 * *", lambda n: _at(n, _first)),
        *_by_zone("month.end", 200, lambda n: f"{_minute(n)} {n % 24} L * *", lambda n: _at(n, _last)),
        *_by_zone("quarterly", 100, lambda n: f"{_minute(n)} 3 1 1,4,7,10 *", lambda n: _three(n, _quarter)),
        *_by_zone("yearly", 70, lambda n: f"{_minute(n)} {n % 24} 24 12 *", lambda n: _at(n, _eve)),
        *(_interval(number, 24 + number) for number in range(28)),
        *(_once(number) for number in range(20)),
    ]
    assert len({one.definition.name for one in planned}) == 1000
    return planned


Times = Callable[[ZoneInfo], Iterator[datetime]]


def _by_zone(
    kind: str, count: int, expression: Callable[[int], str], times: Callable[[int], Times]
) -> Iterator[Planned]:
    for number in range(count):
        zone = ZONES[number % len(ZONES)]
        rule = CronRule(expression=expression(number))
        found = {moment.astimezone(UTC) for moment in times(number)(ZoneInfo(zone))}
        yield _planned(f"{kind}.{number}", rule, found, zone)


def _planned(name: str, rule: Rule, times: set[datetime], zone: str = "UTC") -> Planned:
    definition = SchedulePutData(name=name, rule=rule, timezone=zone, job_type="note")
    return Planned(definition, frozenset(moment for moment in times if BEGIN <= moment < END))


def _minute(number: int) -> int:
    return 30 * (number % 2)


def _hourly(_: int) -> Times:
    return lambda zone: (_wall(zone, day, time(hour)) for day in _days() for hour in range(24))


def _at(number: int, wanted: Callable[[date], bool]) -> Times:
    return _daily(time(number % 24, _minute(number)), wanted)


def _two(number: int, wanted: Callable[[date], bool]) -> Times:
    return _daily(time(2, _minute(number)), wanted)


def _three(number: int, wanted: Callable[[date], bool]) -> Times:
    return _daily(time(3, _minute(number)), wanted)


def _daily(at: time, wanted: Callable[[date], bool]) -> Times:
    return lambda zone: (_wall(zone, day, at) for day in _days() if wanted(day))


def _wall(zone: ZoneInfo, day: date, at: time) -> datetime:
    """The first where the clock shows it twice, as much later where it jumps over it: so `fold=0` means."""
    return datetime.combine(day, at, tzinfo=zone)


def _days() -> Iterator[date]:
    """Those of the year and its neighbours: a day begins elsewhere before it does in UTC."""
    day = BEGIN.date() - _ONE_DAY
    while day <= END.date() + _ONE_DAY:
        yield day
        day += _ONE_DAY


def _any_day(_: date) -> bool:
    return True


def _working_day(day: date) -> bool:
    return day.weekday() < 5


def _sunday(day: date) -> bool:
    return day.weekday() == 6


def _first(day: date) -> bool:
    return day.day == 1


def _last(day: date) -> bool:
    return (day + _ONE_DAY).day == 1


def _quarter(day: date) -> bool:
    return day.day == 1 and day.month in (1, 4, 7, 10)


def _eve(day: date) -> bool:
    return (day.month, day.day) == (12, 24)


def _interval(number: int, hours: int) -> Planned:
    every = timedelta(hours=hours)
    first, since_epoch = datetime(1970, 1, 1, tzinfo=UTC), BEGIN - datetime(1970, 1, 1, tzinfo=UTC)
    times = {first + every * n for n in range(since_epoch // every, (END - first) // every + 1)}
    return _planned(f"interval.{number}", IntervalRule(every=every), times)


def _once(number: int) -> Planned:
    at = BEGIN + timedelta(days=18 * number, minutes=30)
    return _planned(f"once.{number}", OnceRule(at=at), {at})


def count(planned: Sequence[Planned]) -> int:
    """All nominal times."""
    return sum(len(one.times) for one in planned)

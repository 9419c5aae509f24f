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


@dataclass(frozen=True)
class _Kind:
    """So many cron schedules: their expressions, and the days on which they tick at their hour."""

    name: str
    schedules: int
    expression: str
    days: Callable[[date], bool]
    hour: int | None = None
    """None: each has another one."""


_KINDS = (
    _Kind("daily", 20, "{minute} {hour} * * *", lambda _: True),
    _Kind("working", 20, "{minute} 2 * * MON-FRI", lambda day: day.weekday() < 5, 2),
    _Kind("weekly", 200, "{minute} {hour} * * SUN", lambda day: day.weekday() == 6),
    _Kind("monthly", 340, "{minute} {hour} 1 * *", lambda day: day.day == 1),
    _Kind("month.end", 200, "{minute} {hour} L * *", lambda day: (day + _ONE_DAY).day == 1),
    _Kind(
        "quarterly",
        100,
        "{minute} 3 1 1,4,7,10 *",
        lambda day: day.day == 1 and day.month in (1, 4, 7, 10),
        3,
    ),
    _Kind("yearly", 70, "{minute} {hour} 24 12 *", lambda day: (day.month, day.day) == (12, 24)),
)


def the_thousand() -> list[Planned]:
    """Hourly, every so many hours, daily, on working days, weekly, monthly, on the last day, in each quarter,
    once a year and once at all; by ten zones, some with clock changes of an hour and one of half an hour."""
    planned = [
        *(_cron(f"hourly.{number}", number, "0 * * * *", _every_hour) for number in range(2)),
        *(_of_kind(kind, number) for kind in _KINDS for number in range(kind.schedules)),
        *(_interval(number, 24 + number) for number in range(28)),
        *(_once(number) for number in range(20)),
    ]
    assert len({one.definition.name for one in planned}) == 1000
    return planned


def _of_kind(kind: _Kind, number: int) -> Planned:
    hour, minute = number % 24 if kind.hour is None else kind.hour, 30 * (number % 2)
    at = time(hour, minute)
    return _cron(
        f"{kind.name}.{number}",
        number,
        kind.expression.format(minute=minute, hour=hour),
        lambda zone: {_wall(zone, day, at) for day in _days() if kind.days(day)},
    )


def _every_hour(zone: ZoneInfo) -> set[datetime]:
    return {_wall(zone, day, time(hour)) for day in _days() for hour in range(24)}


def _cron(name: str, number: int, expression: str, times: Callable[[ZoneInfo], set[datetime]]) -> Planned:
    zone = ZONES[number % len(ZONES)]
    return _planned(name, CronRule(expression=expression), times(ZoneInfo(zone)), zone)


def _planned(name: str, rule: Rule, times: set[datetime], zone: str = "UTC") -> Planned:
    definition = SchedulePutData(name=name, rule=rule, timezone=zone, job_type="note")
    return Planned(definition, frozenset(moment for moment in times if BEGIN <= moment < END))


def _wall(zone: ZoneInfo, day: date, at: time) -> datetime:
    """The first where the clock shows it twice, as much later where it jumps over it: so `fold=0` means."""
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


def _days() -> Iterator[date]:
    """Those of the year and its neighbours: a day begins elsewhere before it does in UTC."""
    days = (END.date() - BEGIN.date()).days
    return (BEGIN.date() + number * _ONE_DAY for number in range(-1, days + 2))


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

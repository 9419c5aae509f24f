"""A year of a thousand schedules with every service in one process (point 4 of what scheduling must show).

The nominal times of each schedule follow from plain reckoning with dates: nothing here knows cron or calls
the scheduler's calendar."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from time import process_time
from typing import NamedTuple, Self
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from tests.simulation.checked_store import WatchedStore
from tests.simulation.memory_ledger import MemoryLedger

from warrener_agent import Agent, JobContext
from warrener_agent.settings import AgentSettings
from warrener_agent.wiring import assemble as assemble_agent
from warrener_contracts.events import SchedulePut, SchedulePutData, TickStatus
from warrener_contracts.identity import tick_job_id
from warrener_contracts.messages import build_message
from warrener_contracts.schedule_rules import CronRule, IntervalRule, OnceRule, Rule
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import TOPOLOGY
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.publishing import publish_all
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.wiring import assemble as assemble_scheduler
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import assemble as assemble_supervisor

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2027, 1, 1, tzinfo=UTC)
ZONES = """
UTC Europe/Berlin America/New_York Australia/Lord_Howe Asia/Kathmandu America/St_Johns Africa/Casablanca
Pacific/Chatham Asia/Tokyo America/Sao_Paulo
""".split()  # noqa: SIM905 - a list of words is read as words
_ONE_DAY = timedelta(days=1)


class Planned(NamedTuple):
    """A schedule and the nominal times that it must have from BEGIN on and before END."""

    definition: SchedulePutData
    times: frozenset[datetime]


@dataclass(frozen=True)
class _Kind:
    """So many cron schedules: their expressions, and the days on which each ticks at a time of its own."""

    name: str
    schedules: int
    expression: str
    days: Callable[[date], bool]
    at: Callable[[int], time] = lambda number: time(number % 24, 30 * (number % 2))


_KINDS = (
    _Kind("daily", 5, "{minute} {hour} * * *", lambda _: True),
    _Kind("working", 2, "{minute} {hour} * * MON-FRI", lambda day: day.weekday() < 5, lambda _: time(2, 30)),
    # In each zone at each half hour that a clock change of a Sunday skips or repeats.
    _Kind(
        "weekly",
        60,
        "{minute} {hour} * * SUN",
        lambda day: day.weekday() == 6,
        lambda number: time(1 + number // 10 % 3, 30 * (number // 30)),
    ),
    _Kind("monthly", 306, "{minute} {hour} 1 * *", lambda day: day.day == 1),
    _Kind("month.end", 200, "{minute} {hour} L * *", lambda day: (day + _ONE_DAY).day == 1),
    _Kind("quarterly", 177, "{minute} {hour} 1 1,4,7,10 *", lambda day: day.day == 1 and day.month % 3 == 1),
    _Kind("yearly", 200, "{minute} {hour} 24 12 *", lambda day: (day.month, day.day) == (12, 24)),
)
_CHANGES = (date(2026, 3, 27), date(2026, 10, 23))
"""Two days before each clock change in Berlin."""


def the_thousand() -> list[Planned]:
    """Hourly about two clock changes, every so many hours, daily, on working days, weekly, monthly, on the
    last day, in each quarter, once a year and once at all; by ten zones, some with clock changes of an hour
    and one of half an hour."""
    planned = [
        *map(_hourly, _CHANGES),
        *(_of_kind(kind, number) for kind in _KINDS for number in range(kind.schedules)),
        *(_interval(number, 23 * (number + 1)) for number in range(28)),
        *(_once(number) for number in range(20)),
    ]
    assert len({one.definition.name for one in planned}) == 1000
    return planned


def _of_kind(kind: _Kind, number: int) -> Planned:
    at = kind.at(number)
    return _cron(
        f"{kind.name}.{number}",
        number,
        kind.expression.format(minute=at.minute, hour=at.hour),
        lambda zone: {_wall(zone, day, at) for day in _days() if kind.days(day)},
    )


def _hourly(first: date) -> Planned:
    expression, days = f"0 * {first.day}-{first.day + 4} {first.month} *", range(5)
    return _cron(
        f"hourly.{first.month}",
        1,
        expression,
        lambda zone: {_wall(zone, first + day * _ONE_DAY, time(hour)) for day in days for hour in range(24)},
    )


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


JOB_TYPE = "note"
_LEAP = 40_000.0  # seconds; shorter than the lease, so that nobody who was asleep seems lost
_REST = 0.05


class Year:
    """`async with Year(begin) as year`: all services, and a clock to move on."""

    def __init__(self, begin: datetime) -> None:
        self.clock = VirtualClock(begin)
        self.store = WatchedStore()
        self.runs = Counter[str]()
        self._broker = MemoryBroker(self.clock)
        self._producer = MemoryBus(self._broker, name="producer")
        agent = Agent()

        @agent.job(JOB_TYPE)
        async def note(job: JobContext) -> None:
            self.runs[str(job.job_id)] += 1

        del note  # served under its name
        self._buses = [MemoryBus(self._broker, name=name) for name in ("scheduler", "supervisor", "agent")]
        parts = (self.clock, SeededEntropy(1), Telemetry.disabled())
        settings = SchedulerSettings(scheduler_prune_interval=None)
        patient = SupervisorSettings(supervisor_agent_timeout=2 * _LEAP, supervisor_watchdog_interval=60)
        scheduler, supervisor, served = self._buses
        self._components = [
            assemble_scheduler(scheduler, self.store, *parts, settings),
            assemble_supervisor(supervisor, self.store, *parts, patient),
            assemble_agent(agent, served, MemoryLedger(), *parts, AgentSettings(agent_slots=100)),
        ]

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._producer.declare(TOPOLOGY)
        for bus, component in zip(self._buses, self._components, strict=True):
            await bus.start()
            await component.start()
        await self.clock.settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        for bus, component in zip(self._buses, self._components, strict=True):
            await component.stop()
            await bus.close()
        await self._producer.close()
        self._broker.stop()

    async def put(self, schedules: list[SchedulePutData]) -> None:
        events = [SchedulePut(id=one.name, source="year", data=one) for one in schedules]
        await publish_all(self._producer, [build_message(event) for event in events], clock=self.clock)
        await self.clock.settle()

    async def live_before(self, end: datetime) -> None:
        """From tick to tick, all that are earlier than `end`; the jobs of one are over before the next."""
        end -= timedelta(microseconds=1)
        while (now := self.clock.now()) < end:
            wake = await self.store.next_schedule_wake() or end
            await self.clock.leap(min((min(wake, end) - now).total_seconds(), _LEAP))
            left = (end - self.clock.now()).total_seconds()
            await self.clock.advance(min(left, _REST))  # it was decided ahead, and is due now
            while self.store.live or (await self.store.next_schedule_wake() or end) <= self.clock.now() < end:
                await self.clock.advance(_REST)


@pytest.mark.timeout(900)
async def test_4_a_year_of_a_thousand_schedules_has_every_tick_and_every_job_once() -> None:
    planned = the_thousand()
    began = process_time()
    async with Year(BEGIN) as year:
        await year.put([one.definition for one in planned])
        await year.live_before(END)
        lived = process_time() - began
        for one in planned:
            await check_ledger(year, one)
        secret = await year.store.installation_secret(UUID(int=0), "none was made")
        jobs = {tick_job_id(one.definition.name, moment, secret) for one in planned for moment in one.times}
        rows = await year.store.jobs_by_id(jobs)
        assert rows.keys() == jobs, "each tick has its job"
        assert {row.state for row in rows.values()} == {JobState.SUCCEEDED}
        assert year.runs == dict.fromkeys(map(str, jobs), 1), "and each ran once"
        assert await year.store.escalations.incidents() == [], "nobody was alarmed"
    print(f"a year of {len(planned)} schedules, {len(jobs)} ticks and jobs: {lived:.1f} s of a processor")


async def check_ledger(year: Year, planned: Planned) -> None:
    found = await year.store.ticks_of(planned.definition.name, 100_000)
    ticks = [tick for tick in found if tick.nominal_at < END]  # that of the end is decided a little ahead
    assert {tick.nominal_at for tick in ticks} == planned.times, planned.definition
    assert len(ticks) == len(planned.times)
    assert {tick.status for tick in ticks} <= {TickStatus.FIRED}, planned.definition

"""Every tick accounted for (G5): real schedulers, a real broker, and a tick history to compare with.

Schedulers share the work and are killed; a scheduler is away for some ticks. Each nominal time has one row
and at most one job, whatever happens.
"""

import asyncio
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from uuid import UUID

import asyncpg
import pytest
from tests.acceptance.store_queries import rows_of, tick_history
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import IntervalRule, OnceRule, ScheduleChoices
from warrener_store import open_store
from warrener_store.schedules.rows import TickRow

MODULE = "nothing_jobs"
JOBS = """
from warrener_agent import Agent

agent = Agent()


@agent.job("nothing")
async def nothing() -> None:
    pass
"""
SCHEDULES = 10_000
SCHEDULERS = 3


@pytest.fixture
def postgres_warren(warren: Warren, postgres_store_url: str) -> Warren:
    """A warren whose store is PostgreSQL, as where there are several schedulers."""
    warren.store_url = postgres_store_url
    return warren


@dataclass(frozen=True)
class Books:
    """What the store says in the end."""

    statuses: dict[str, int]
    jobs: set[UUID]
    lags: list[float]

    @property
    def p99(self) -> float:
        """Of the lag, from when it was due until the broker had its request, in seconds."""
        return sorted(self.lags)[len(self.lags) * 99 // 100]


class Store:
    """What the tests ask the database, over one connection: to open one costs more than the question, and
    they ask while a lag is measured."""

    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        self._runner = runner
        self._connection: asyncpg.Connection = runner.run(asyncpg.connect(url))

    @classmethod
    @contextmanager
    def of(cls, warren: Warren) -> Generator["Store"]:
        with asyncio.Runner() as runner:
            store = cls(runner, warren.store_url)
            yield store
            runner.run(store._connection.close())

    def count(self, statement: str) -> int:
        return int(self._runner.run(self._connection.fetchval(statement)) or 0)

    def books(self) -> Books:
        statuses = self._rows("SELECT status, count(*) FROM warrener_ticks GROUP BY status")
        jobs = self._rows("SELECT job_id FROM warrener_jobs")
        lags = self._rows(
            "SELECT extract(epoch FROM fired_at - due_at)::float FROM warrener_ticks "
            "WHERE fired_at IS NOT NULL"
        )
        return Books({row[0]: row[1] for row in statuses}, {row[0] for row in jobs}, [row[0] for row in lags])

    def _rows(self, statement: str) -> list[asyncpg.Record]:
        return self._runner.run(self._connection.fetch(statement))


async def _job_types(url: str) -> set[str]:
    store = open_store(url)
    await store.start()
    try:
        return set(await store.job_types())
    finally:
        await store.close()


def announce(warren: Warren) -> None:
    """Make the job type known; nobody need run the jobs."""
    (warren.folder / f"{MODULE}.py").write_text(JOBS, encoding="utf-8")
    agent = warren.start("agent", MODULE)
    until(lambda: "nothing" in asyncio.run(_job_types(warren.store_url)), "the job type", within=120)
    agent.end()


def put_all(warren: Warren, at: datetime) -> set[UUID]:
    """So many schedules that are all due at one moment; the ids of their jobs."""
    names = [f"burst.{number}" for number in range(SCHEDULES)]
    with SyncClient(warren.broker_url) as client:
        client.put_schedules(
            [SchedulePutData(name=name, rule=OnceRule(at=at), job_type="nothing") for name in names]
        )
    return {tick_job_id(name, at) for name in names}


def until_fired(store: Store, meanwhile: Callable[[], None] = lambda: None) -> Books:
    """Until each tick's request is confirmed and each of them has become a job."""

    def fired() -> bool:
        meanwhile()
        ticks = store.count("SELECT count(*) FROM warrener_ticks WHERE fired_at IS NOT NULL")
        return ticks >= SCHEDULES and store.count("SELECT count(*) FROM warrener_jobs") >= SCHEDULES

    until(fired, f"{SCHEDULES} ticks to be fired", within=150)
    return store.books()


def check_books(books: Books, expected: set[UUID]) -> None:
    assert books.jobs == expected, "each tick has its job, and there is no other"
    assert sum(books.statuses.values()) == SCHEDULES
    assert books.statuses.keys() <= {TickStatus.FIRED, TickStatus.CAUGHT_UP}


@pytest.mark.timeout(300)
def test_3_schedulers_and_10000_schedules_due_at_one_moment_make_10000_jobs(
    postgres_warren: Warren,
) -> None:
    for _ in range(SCHEDULERS):
        postgres_warren.start("scheduler")
    announce(postgres_warren)
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=25)
    expected = put_all(postgres_warren, at)
    with Store.of(postgres_warren) as store:
        books = until_fired(store)
    check_books(books, expected)
    print(f"lag p99 of {SCHEDULES} ticks due at one moment, {SCHEDULERS} schedulers: {books.p99:.2f} s")


@pytest.mark.timeout(300)
def test_3_schedulers_of_which_one_is_killed_each_second_make_10000_jobs(postgres_warren: Warren) -> None:
    with Killer.of(postgres_warren) as killer, Store.of(postgres_warren) as store:
        announce(postgres_warren)
        at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=25)
        expected = put_all(postgres_warren, at)
        until(lambda: store.count("SELECT count(*) FROM warrener_schedules") == SCHEDULES, "the puts")
        until(lambda: datetime.now(UTC) >= at, "the moment at which all are due")
        books = until_fired(store, killer.kill_each_second)
    assert killer.killed, "one was killed at the least"
    check_books(books, expected)
    print(
        f"lag p99 of {SCHEDULES} ticks due at one moment, {SCHEDULERS} schedulers, one killed each second "
        f"until the end ({killer.killed}): {books.p99:.2f} s"
    )


class Killer:
    """kill -9 of one of the schedulers, once a second; another takes its place.

    Which, is chance: always the one that has lived longest, and on a busy machine none would live long enough
    to have begun.
    """

    def __init__(self, warren: Warren) -> None:
        self._warren = warren
        self._schedulers = [warren.start("scheduler") for _ in range(SCHEDULERS)]
        self._chance = random.Random(4)
        self._next = 0.0
        self.killed = 0

    @classmethod
    @contextmanager
    def of(cls, warren: Warren) -> Generator["Killer"]:
        killer = cls(warren)
        try:
            yield killer
        finally:
            for scheduler in killer._schedulers:
                scheduler.kill()

    def kill_each_second(self) -> None:
        if monotonic() < self._next:
            return
        self._next = max(self._next, monotonic() - 1) + 1
        victim = self._chance.randrange(SCHEDULERS)
        self._schedulers[victim].kill()
        self._schedulers[victim] = self._warren.start("scheduler")
        self.killed += 1


# -- away for some ticks -----------------------------------------------------------------------------------

EVERY = timedelta(seconds=2)
SELDOM = timedelta(seconds=6)
"""Seldom enough that no further tick is due while a scheduler comes back right behind one."""
CHOICES = {
    "skip": ScheduleChoices.model_validate({"misfire": "skip"}),
    "once": ScheduleChoices.model_validate({"misfire": "once"}),
    "all": ScheduleChoices.model_validate({"misfire": "all", "max_catch_up": 2}),
    "window": ScheduleChoices.model_validate({"misfire": "window", "catch_up_window": 5}),
}


def test_a_scheduler_that_was_away_over_3_ticks_follows_each_misfire_choice(
    warren: Warren,
) -> None:
    scheduler = warren.start("scheduler")
    announce(warren)
    with SyncClient(warren.broker_url) as client:
        client.put_schedules(
            [
                SchedulePutData(name=name, rule=IntervalRule(every=EVERY), job_type="nothing", choices=chosen)
                for name, chosen in CHOICES.items()
            ]
        )
    until(lambda: all(tick_history(warren, name) for name in CHOICES), "the first tick of each")
    scheduler.kill()
    before = {name: len(tick_history(warren, name)) for name in CHOICES}
    last = max(tick_history(warren, name)[-1].nominal_at for name in CHOICES)
    until(lambda: datetime.now(UTC) > last + 4 * EVERY, "3 ticks to be missed")
    warren.start("scheduler")
    until(
        lambda: all(len(tick_history(warren, name)) > before[name] + 3 for name in CHOICES),
        "each to tick again",
    )

    for name in CHOICES:
        check_tick_history(name, tick_history(warren, name), before[name])
        check_jobs(warren, tick_history(warren, name))


def test_a_scheduler_that_comes_back_between_two_ticks_lets_the_last_missed_one_stand_for_all(
    warren: Warren,
) -> None:
    scheduler = warren.start("scheduler")
    announce(warren)
    once = ScheduleChoices.model_validate({"misfire": "once", "grace": 0.1})
    rule = IntervalRule(every=SELDOM)
    with SyncClient(warren.broker_url) as client:
        client.put_schedules([SchedulePutData(name="seldom", rule=rule, job_type="nothing", choices=once)])
    until(lambda: tick_history(warren, "seldom"), "its first tick")
    scheduler.kill()
    last = tick_history(warren, "seldom")[-1].nominal_at
    until(lambda: datetime.now(UTC) > last + 3 * SELDOM + timedelta(seconds=0.5), "3 ticks to be missed")
    before = len(tick_history(warren, "seldom"))
    warren.start("scheduler")
    ticks = until(
        lambda: len(found := tick_history(warren, "seldom")) >= before + 3 and found, "what was missed"
    )
    late = [tick for tick in ticks[before:] if tick.decided_at == ticks[before].decided_at]
    *earlier, stands = late
    assert len(late) >= 3
    assert {tick.status for tick in earlier} == {TickStatus.COALESCED}
    assert {tick.reason for tick in earlier} == {"missed: a later tick stands for it"}
    if stands.decided_at - stands.due_at > once.grace:  # else it came just in time
        assert stands.status is TickStatus.CAUGHT_UP
        assert stands.reason.startswith("missed: ")
    check_jobs(warren, ticks)


def check_jobs(warren: Warren, ticks: list[TickRow]) -> None:
    """What the tick history says of jobs is so: one for each tick that has asked for one, none for the
    others."""
    requested = {TickStatus.FIRED, TickStatus.CAUGHT_UP}
    assert all((tick.job_id is not None) is (tick.status in requested) for tick in ticks)
    ids = [tick.job_id for tick in ticks if tick.job_id is not None]
    derived = [tick_job_id(tick.schedule, tick.nominal_at) for tick in ticks if tick.status in requested]
    assert ids == derived
    until(lambda: rows_of(warren, ids).keys() == {*ids}, "a job for each of them")
    others = [tick_job_id(tick.schedule, tick.nominal_at) for tick in ticks if tick.status not in requested]
    assert rows_of(warren, others) == {}


def check_tick_history(name: str, ticks: list[TickRow], before: int) -> None:
    """`before`: the ticks until the scheduler was away. What it missed is decided at once when it is back; at
    other times a busy machine may have held one up too."""
    assert [tick.nominal_at for tick in ticks] == [ticks[0].nominal_at + n * EVERY for n in range(len(ticks))]
    assert all(tick.reason for tick in ticks if tick.status is not TickStatus.FIRED), (
        "the tick history says why"
    )
    at_once = [tick for tick in ticks[before:] if tick.decided_at == ticks[before].decided_at]
    missed = [tick for tick in at_once if tick.decided_at >= tick.nominal_at + EVERY]
    assert len(missed) >= 3
    statuses = [tick.status for tick in missed]
    match name:
        case "skip":
            assert set(statuses) == {TickStatus.SKIPPED}
        case "once":
            assert set(statuses) == {TickStatus.COALESCED}
        case "all":
            newest = [TickStatus.CAUGHT_UP, TickStatus.CAUGHT_UP]
            assert statuses == [TickStatus.SKIPPED] * (len(missed) - 2) + newest
        case _:
            young = [tick.decided_at - tick.nominal_at <= timedelta(seconds=5) for tick in missed]
            assert [status is TickStatus.CAUGHT_UP for status in statuses] == young
            assert set(statuses) == {TickStatus.SKIPPED, TickStatus.CAUGHT_UP}

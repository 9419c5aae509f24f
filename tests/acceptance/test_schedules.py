"""Schedules on real processes and a real broker: each tick accounted for (G5), a backfill that is struck, and
the dead-man alarm.

What follows missed ticks, which ticks a backfill requests, and overdue or unsuccessful schedules are proved
in virtual time, by `services/scheduler/tests/schedules/test_ticker.py` and `decisions/test_backfill.py`,
`tests/simulation/test_year.py` and `services/supervisor/tests/test_schedule_monitor.py`.
"""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from uuid import UUID, uuid4

import asyncpg
import pytest
from services.supervisor.tests.webhook_receiver import WebhookReceiver
from tests.acceptance.command_line import run_command, run_json, start
from tests.acceptance.store_queries import incidents_of, job_types_of, look, tick_history
from tests.acceptance.test_escalation import escalation_file
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import IntervalRule, OnceRule, ScheduleChoices
from warrener_store.jobs.rows import JobFilter
from warrener_store.schedules.rows import ScheduleRow

MODULE = "tests.acceptance.many_handlers"
SCHEDULES = 10_000
SCHEDULERS = 3
HOUR = timedelta(hours=1)
NAME = "every.second"
POLICIES = """
[[policy]]
name = "schedules"
kinds = ["schedule.*", "scheduler.*"]
steps = [{ do = "alert", to = ["hook"], urgent = true }]
"""
PATIENCE = 120.0
Query = Callable[[str], list[asyncpg.Record]]


def announce(warren: Warren) -> None:
    """Make the job type known; nobody need run the jobs."""
    agent = warren.start("agent", MODULE)
    until(lambda: "many" in job_types_of(warren), "the job type", within=120)
    agent.end()


def put(warren: Warren, *schedules: SchedulePutData) -> None:
    with SyncClient(warren.broker_url) as client:
        client.put_schedules(schedules)


def schedule(warren: Warren, name: str) -> ScheduleRow | None:
    """As the store has it."""
    return look(warren, lambda store: store.schedules([name])).get(name)


def installation_secret(warren: Warren) -> str:
    """That of the installation; the first to ask makes it."""
    return look(warren, lambda store: store.installation_secret(uuid4(), "none was made"))


# -- each tick -----------------------------------------------------------------------------------------------


@contextmanager
def connected(url: str) -> Generator[Query]:
    """Queries over one connection: to open one costs more than a query."""
    with asyncio.Runner() as runner:
        connection: asyncpg.Connection = runner.run(asyncpg.connect(url))
        yield lambda statement: runner.run(connection.fetch(statement))
        runner.run(connection.close())


def put_all(warren: Warren, at: datetime) -> set[UUID]:
    """Put schedules that are all due at one moment; return the ids of their jobs."""
    names = [f"burst.{number}" for number in range(SCHEDULES)]
    put(warren, *(SchedulePutData(name=name, rule=OnceRule(at=at), job_type="many") for name in names))
    secret = installation_secret(warren)
    return {tick_job_id(name, at, secret) for name in names}


@pytest.mark.timeout(300)
def test_3_schedulers_of_which_one_is_killed_each_second_make_10000_jobs(
    warren: Warren, postgres_store_url: str
) -> None:
    warren.store_url = postgres_store_url  # as where there are several schedulers
    with Killer.of(warren) as killer, connected(warren.store_url) as query:

        def count(table: str, where: str = "true") -> int:
            return int(query(f"SELECT count(*) FROM {table} WHERE {where}")[0][0])

        def fired() -> bool:
            killer.kill_each_second()
            confirmed = count("warrener_ticks", "fired_at IS NOT NULL")
            return confirmed >= SCHEDULES and count("warrener_jobs") >= SCHEDULES

        announce(warren)
        at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=25)
        expected = put_all(warren, at)
        until(lambda: count("warrener_schedules") == SCHEDULES, "the puts")
        until(lambda: datetime.now(UTC) >= at, "the moment at which all are due")
        until(fired, f"{SCHEDULES} ticks to be fired", within=150)
        statuses = [row[0] for row in query("SELECT status FROM warrener_ticks")]
        jobs = {row[0] for row in query("SELECT job_id FROM warrener_jobs")}
    assert killer.killed, "one was killed at the least"
    assert jobs == expected, "each tick has its job, and there is no other"
    assert len(statuses) == SCHEDULES
    assert set(statuses) <= {TickStatus.FIRED, TickStatus.CAUGHT_UP}


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


# -- a backfill ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def begun(shared_warren: Warren) -> Warren:
    """All services, which know the job types."""
    shared_warren.start_all(MODULE, slots=20)
    until(lambda: "many" in job_types_of(shared_warren), "the job types", within=120)
    return shared_warren


def jobs_of(warren: Warren, name: str) -> list[UUID]:
    """The jobs that the ticks of a schedule have asked for, and that are there."""
    rows = look(warren, lambda store: store.list_jobs(JobFilter(limit=1000)))
    return [row.job_id for row in rows if row.source == f"warrener/schedule/{name}"]


def hourly(warren: Warren, name: str) -> datetime:
    """Put a schedule that ticks each hour, and not while the test runs; its last tick."""
    last = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
    rule = IntervalRule(every=HOUR, anchor=last - 1000 * HOUR)
    put(warren, SchedulePutData(name=name, rule=rule, job_type="many"))
    until(lambda: schedule(warren, name), f"{name} to be kept")
    return last


def test_point_5_a_backfill_outlives_its_command_and_its_scheduler(begun: Warren) -> None:
    last = hourly(begun, "torn")
    times = [last - n * HOUR for n in range(60)]  # 15 s, in which it is struck
    words = ("schedule", "backfill", "torn", "--from", times[-1].isoformat(), "--rate", "4/s")
    planned = run_json(begun, *words, "--dry-run")
    assert [tick["status"] for tick in planned["details"]["ticks"]] == ["requested"] * 60
    assert jobs_of(begun, "torn") == [], "a dry run requests nothing"
    command = start(begun, *words, "--reason", "the files were mended")
    until(lambda: len(jobs_of(begun, "torn")) > 5, "the backfill to begin")
    scheduler = next(one for one in begun.services if one.name == "scheduler" and one.process.poll() is None)
    scheduler.kill()
    command.send_signal(signal.SIGINT)
    _, output = command.communicate(timeout=60)
    assert command.returncode == 130, output
    assert "the backfill goes on" in output
    assert len(jobs_of(begun, "torn")) < 60
    begun.start("scheduler")
    run_command(begun, *words, "--reason", "the files were mended")
    ticks = look(begun, lambda store: store.ticks_of("torn", None, begin=times[-1], end=times[0]))
    assert [tick.request for tick in ticks] == [None] * 60, "said again, it looks on until all is asked for"
    secret = installation_secret(begun)
    expected = Counter({tick_job_id("torn", moment, secret): 1 for moment in times})
    until(lambda: Counter(jobs_of(begun, "torn")) == expected, "each tick's job, once")
    again = run_json(begun, *words)
    assert Counter(tick["status"] for tick in again["details"]["ticks"]) == {"has_job": 60}
    assert {tick.reason for tick in ticks} == {"backfilled: the files were mended"}


# -- the dead-man alarm --------------------------------------------------------------------------------------


def test_6_the_alarm_comes_when_every_scheduler_is_killed_and_is_over_when_one_comes_back(
    warren: Warren,
) -> None:
    def close_reason() -> str | None:
        """None while the incident is open."""
        found = incidents_of(warren, closed=True)
        return next((one.close_reason for one in found if one.fingerprint == "scheduler.stopped"), None)

    def is_planned() -> bool:
        """True if the next tick is still to come."""
        row = schedule(warren, NAME)
        return row is not None and row.next_at is not None and row.next_at > datetime.now(UTC)

    with WebhookReceiver() as receiver:
        file = escalation_file(warren, receiver, POLICIES)
        for _ in range(2):
            warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        schedulers = [warren.start("scheduler") for _ in range(2)]
        warren.wait_ready()
        announce(warren)
        choices = ScheduleChoices.model_validate({"misfire": "skip"})
        rule = IntervalRule(every=timedelta(seconds=1))
        put(warren, SchedulePutData(name=NAME, rule=rule, job_type="many", choices=choices))
        until(lambda: tick_history(warren, NAME), "its first tick")
        for scheduler in schedulers:
            scheduler.kill()
        until(lambda: receiver.received, "the alarm", within=PATIENCE)
        alarm = receiver.received[0].data
        assert (alarm["kind"], alarm["subject"]) == ("scheduler.stopped", "all schedules")
        assert "no scheduler has been there since" in alarm["text"]
        shown = run_json(warren, "escalation", "list")
        assert not [one for one in shown if one["kind"].startswith("schedule.")], "no schedule is blamed"
        until(
            lambda: "overdue" in run_command(warren, "schedule", "list"),
            "the command to mark the schedule",
            within=PATIENCE,
        )
        warren.start("scheduler")
        reason = until(close_reason, "the incident to be closed", within=PATIENCE)
        assert reason == "a scheduler is there again"
        until(is_planned, "the schedule to be planned again", within=PATIENCE)
        assert "overdue" not in run_command(warren, "schedule", "list")
    # A delivery without an answer is repeated, under the same id.
    assert len({received.webhook_id for received in receiver.received}) == 1, "two supervisors alarm once"

"""Every tick accounted for (G5): real schedulers, a real broker, and a tick history to compare with.

Schedulers share the work and are killed. What follows ticks that were missed is proved in virtual time, by
`services/scheduler/tests/schedules/test_ticker.py` and `tests/simulation/test_year.py`.
"""

import asyncio
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from uuid import UUID

import asyncpg
import pytest
from tests.acceptance.store_queries import job_types_of
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import OnceRule

MODULE = "tests.acceptance.many_handlers"
SCHEDULES = 10_000
SCHEDULERS = 3
Query = Callable[[str], list[asyncpg.Record]]


@contextmanager
def connected(url: str) -> Generator[Query]:
    """Queries over one connection: to open one costs more than a query."""
    with asyncio.Runner() as runner:
        connection: asyncpg.Connection = runner.run(asyncpg.connect(url))
        yield lambda statement: runner.run(connection.fetch(statement))
        runner.run(connection.close())


def announce(warren: Warren) -> None:
    """Make the job type known; nobody need run the jobs."""
    agent = warren.start("agent", MODULE)
    until(lambda: "many" in job_types_of(warren), "the job type", within=120)
    agent.end()


def put_all(warren: Warren, at: datetime) -> set[UUID]:
    """Put schedules that are all due at one moment; return the ids of their jobs."""
    names = [f"burst.{number}" for number in range(SCHEDULES)]
    with SyncClient(warren.broker_url) as client:
        client.put_schedules(
            [SchedulePutData(name=name, rule=OnceRule(at=at), job_type="many") for name in names]
        )
    return {tick_job_id(name, at) for name in names}


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

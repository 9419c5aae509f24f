"""Ten thousand jobs of which 30 % fail twice, with and without a broker that is killed three times: all
succeed, and in the end the delay queues and the store agree that there is nothing left to do. Every other one
may share its message."""

import random
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from tests.acceptance.warren import Warren, until
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobSpec, SyncClient

MODULE = "tests.acceptance.many_handlers"
JOBS = 10_000
UNLUCKY = 0.3
SEED = 4
KILLED_AT = (500, 1_500, 3_000)  # jobs that have succeeded; enough are left for the last kill to come late
PATIENCE = 300  # seconds, of which a quiet machine needs a sixth
UNHURRIED = {"WARRENER_AGENT_CLAIM_TTL": "60", "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "90"}
"""Nobody is lost where nothing is killed, however long a busy machine holds an agent up."""

pytestmark = pytest.mark.timeout(2 * PATIENCE)

MESSAGES = """
lists:sum([M || [{name, {resource, _, queue, <<"warrener.", _/binary>>}}, {messages, M}]
    <- rabbit_amqqueue:info_all(<<"/">>, [name, messages])])
"""
OVER = "state IN ('succeeded', 'dead', 'cancelled', 'expired')"


def test_of_ten_thousand_jobs_that_fail_at_random_all_succeed(
    warren: Warren, own_rabbitmq: RabbitMQServer
) -> None:
    warren.environment = UNHURRIED
    unlucky = begin(warren, own_rabbitmq)
    check_end(warren, own_rabbitmq)
    ends = dict(query_rows(warren, "SELECT outcome, count(*) FROM warrener_attempts GROUP BY outcome"))
    assert ends == {"failed": 2 * unlucky}, "and each success, in the row of its job"
    failures = dict(query_rows(warren, "SELECT failures, count(*) FROM warrener_jobs GROUP BY failures"))
    assert failures == {0: JOBS - unlucky, 2: unlucky}


def test_of_ten_thousand_all_succeed_though_the_broker_is_killed_three_times(
    warren: Warren, own_rabbitmq: RabbitMQServer
) -> None:
    begin(warren, own_rabbitmq)
    for done in KILLED_AT:
        until_succeeded(warren, done)
        own_rabbitmq.kill()
        own_rabbitmq.start()
    assert succeeded(warren) < JOBS, "killed while there was work"
    check_end(warren, own_rabbitmq)


def begin(warren: Warren, broker: RabbitMQServer) -> int:
    """A warren on `broker`, in which all is asked for; how many of them will fail twice."""
    warren.broker_url = broker.url
    warren.start_all(MODULE, slots=200)
    broker.settle()
    chance = random.Random(SEED)
    luck = [chance.random() < UNLUCKY for _ in range(JOBS)]
    specs = [JobSpec("shared" if n % 2 else "many", {"unlucky": unlucky}) for n, unlucky in enumerate(luck)]
    with SyncClient(warren.broker_url) as client:
        assert sum(1 for _ in client.request_many(specs)) == JOBS
    return sum(luck)


def check_end(warren: Warren, broker: RabbitMQServer) -> None:
    """All have succeeded, no row is open, and no queue holds anything."""
    until_succeeded(warren, JOBS)
    until(lambda: broker.evaluate(MESSAGES).strip() == "0", "all queues to be empty")
    [(rows, open_rows)] = query_rows(
        warren, f"SELECT count(*), sum(NOT ({OVER}) OR wake_at IS NOT NULL) FROM warrener_jobs"
    )
    assert (rows, open_rows) == (JOBS, 0)
    for table in ("warrener_dead_letters", "warrener_parked"):
        assert query_rows(warren, f"SELECT * FROM {table}") == []


def until_succeeded(warren: Warren, count: int) -> None:
    until(lambda: succeeded(warren) >= count, f"{count} jobs to succeed", within=PATIENCE)


def succeeded(warren: Warren) -> int:
    [(count,)] = query_rows(warren, "SELECT count(*) FROM warrener_jobs WHERE state = 'succeeded'")
    return int(count)


def query_rows(warren: Warren, question: str) -> list[Any]:
    """What the state store says."""
    with closing(sqlite3.connect(warren.folder / "state.db", timeout=30)) as store:
        return store.execute(question).fetchall()

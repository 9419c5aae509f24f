"""Ten thousand jobs of which 30 % fail twice, on a broker that is killed three times: all succeed, and in the
end the delay queues and the store agree that there is nothing left to do. Every other one may share its
message."""

import random

import pytest
from tests.acceptance.store_queries import run_sql
from tests.acceptance.warren import Warren, until
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobSpec, SyncClient

MODULE = "tests.acceptance.many_handlers"
JOBS = 10_000
UNLUCKY = 0.3
SEED = 4
KILLED_AT = (500, 1_500, 3_000)  # jobs that have succeeded; enough are left for the last kill to come late
PATIENCE = 300  # seconds, of which a quiet machine needs a sixth
pytestmark = pytest.mark.timeout(2 * PATIENCE)

MESSAGES = """
lists:sum([M || [{name, {resource, _, queue, <<"warrener.", _/binary>>}}, {messages, M}]
    <- rabbit_amqqueue:info_all(<<"/">>, [name, messages])])
"""
OVER = "state IN ('succeeded', 'dead', 'cancelled', 'expired')"


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


def begin(warren: Warren, broker: RabbitMQServer) -> None:
    """A warren on `broker`, in which all is requested."""
    warren.broker_url = broker.url
    warren.start_all(MODULE, slots=200)
    broker.settle()
    chance = random.Random(SEED)
    specs = [
        JobSpec("shared" if n % 2 else "many", {"unlucky": chance.random() < UNLUCKY}) for n in range(JOBS)
    ]
    with SyncClient(warren.broker_url) as client:
        assert sum(1 for _ in client.request_many(specs)) == JOBS


def check_end(warren: Warren, broker: RabbitMQServer) -> None:
    """All have succeeded, no row is open, and no queue holds anything."""
    until_succeeded(warren, JOBS)
    until(lambda: broker.evaluate(MESSAGES).strip() == "0", "all queues to be empty")
    [(rows, open_rows)] = run_sql(
        warren, f"SELECT count(*), sum(NOT ({OVER}) OR wake_at IS NOT NULL) FROM warrener_jobs"
    )
    assert (rows, open_rows) == (JOBS, 0)
    for table in ("warrener_dead_letters", "warrener_parked"):
        assert run_sql(warren, f"SELECT * FROM {table}") == []


def until_succeeded(warren: Warren, count: int) -> None:
    until(lambda: succeeded(warren) >= count, f"{count} jobs to succeed", within=PATIENCE)


def succeeded(warren: Warren) -> int:
    [(count,)] = run_sql(warren, "SELECT count(*) FROM warrener_jobs WHERE state = 'succeeded'")
    return int(count)

"""Point 3 of supervision (G8): a service that has stopped receiving notices it by itself and recovers.

`tests/simulation/test_lost_agent.py` proves that the supervisor raises the alarm once nobody consumes,
`test_services_frozen.py` that a frozen scheduler delays nothing."""

from collections.abc import Iterator

import pytest
from tests.acceptance.store_queries import effects, make_effects
from tests.acceptance.warren import Warren, until
from tests.broker_access import delete_queues
from tests.faults.postgres_proxy import by_way_of
from tests.faults.swallowing_proxy import SwallowingProxy
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobCancelled, JobSpec, SyncClient
from warrener_contracts.topology import REQUESTS, REQUESTS_QUEUE, STATUS_QUEUE, dispatch_queue

MODULE = "tests.acceptance.lost_handlers"
JOBS = 20

ALL_CONSUMERS = "[exit(Channel, kill) || Channel <- rabbit_channel:list()], ok"

CONTROL_QUEUES_DELETED = """
    [rabbit_amqqueue:delete(Queue, false, false, <<"test">>)
     || Queue <- rabbit_amqqueue:list(), {resource, _, queue, Name} <- [amqqueue:get_name(Queue)],
        binary:match(Name, <<"warrener.control.">>) =/= nomatch], ok
"""


@pytest.fixture
def proxy(broker: RabbitMQServer) -> Iterator[SwallowingProxy]:
    """One on the way to the broker."""
    one = SwallowingProxy(broker.port)
    yield one
    one.close()


def test_3_a_consumer_that_lives_and_gets_nothing_is_noticed_by_its_service(
    warren: Warren, proxy: SwallowingProxy
) -> None:
    """A scheduler's, which notices it as every service does: `infra/runtime/tests/lifecycle`."""
    make_effects(warren)
    warren.start("supervisor")
    stalled = warren.start(
        "scheduler",
        WARRENER_BROKER_URL=by_way_of(warren.broker_url, proxy.port),
        WARRENER_SCHEDULER_REQUESTS_PREFETCH="1",
    )
    warren.start("agent", MODULE)
    warren.wait_ready()

    proxy.swallow(REQUESTS, 2)  # as many as it may have unacknowledged: it will never get another
    with SyncClient(warren.broker_url) as client:
        jobs = list(client.request_many([JobSpec("quick")] * JOBS, batch=1))
        until(lambda: proxy.swallowed, "the consumer to be stalled")
        for job in jobs:
            job.result(timeout=60)
    assert "consumer.starved" in stalled.log.read_text()
    assert stalled.end() == 0


def test_3_services_whose_channels_are_killed_or_queues_deleted_come_back_and_every_job_is_done_once(
    warren: Warren, own_rabbitmq: RabbitMQServer
) -> None:
    """RabbitMQ 3.10 moves a consumer to a queue that is made again at once, as our clients make it, and
    delivers nothing to it."""
    warren.broker_url = own_rabbitmq.url
    warren.environment = {"WAITS": "1"}
    make_effects(warren)
    warren.start_all(MODULE)
    done: list[str] = []
    queues = [queue.name for queue in (STATUS_QUEUE, REQUESTS_QUEUE, dispatch_queue("quick"))]
    for turn in range(4):
        if turn % 2:
            own_rabbitmq.evaluate(ALL_CONSUMERS)
        else:
            delete_queues(warren.broker_url, *queues)
        with SyncClient(warren.broker_url) as client:
            jobs = list(client.request_many([JobSpec("quick")] * JOBS))
            for job in jobs:
                job.result(timeout=60)
            done += [str(job.job_id) for job in jobs]
    assert sorted(effects(warren)) == sorted(done)

    with SyncClient(warren.broker_url) as client:
        long = client.request("long")
        until((warren.folder / "runs").exists, "the long job to run")
        own_rabbitmq.evaluate(CONTROL_QUEUES_DELETED)
        client.cancel(long.job_id)
        with pytest.raises(JobCancelled):
            long.result(timeout=60)

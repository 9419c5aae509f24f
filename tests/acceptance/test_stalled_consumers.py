"""Point 3 of supervision (G8): a service that has stopped receiving notices it by itself and recovers, and
where it cannot, the supervisor raises the alarm."""

import signal
from collections.abc import Iterator

import pytest
from tests.acceptance.event_tap import EventTap
from tests.acceptance.store_queries import agents_of, effects, make_effects
from tests.acceptance.warren import Warren, locked, until, with_heartbeat
from tests.broker_access import delete_queues
from tests.faults.postgres_proxy import by_way_of
from tests.faults.swallowing_proxy import SwallowingProxy
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobCancelled, JobSpec, SyncClient
from warrener_contracts.events import AgentLost, ServiceUnresponsive
from warrener_contracts.topology import EVENTS, REQUESTS, REQUESTS_QUEUE, STATUS_QUEUE, dispatch_queue

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


def test_3_the_supervisor_raises_the_alarm_for_who_cannot_notice(warren: Warren) -> None:
    make_effects(warren)
    scheduler = warren.start("scheduler", WARRENER_BROKER_URL=with_heartbeat(warren.broker_url, 3))
    supervisor = warren.start("supervisor")
    agent = warren.start("agent", MODULE)
    warren.wait_ready()
    tap = EventTap(warren.broker_url, EVENTS)
    until(lambda: agents_of(warren), "the agent's first heartbeat to be noted")
    with SyncClient(warren.broker_url) as client:
        agent.kill()
        lost = until(lambda: tap.received(AgentLost), "the alarm that an agent is lost")[0]
        assert lost.data.pid == agent.process.pid
        waiting = list(client.request_many([JobSpec("quick")] * JOBS))
        stalled = until(lambda: find_alarm(tap, "agent"), "the alarm that nobody runs what waits")
        assert stalled.data.queue == dispatch_queue("quick").name
        assert 0 < stalled.data.waiting <= JOBS  # the alarm may come while the scheduler dispatches them

        with locked(warren.folder / "state.db"):
            scheduler.freeze()
        waiting += client.request_many([JobSpec("quick")] * JOBS)
        stalled = until(
            lambda: find_alarm(tap, "scheduler"), "the alarm that the scheduler is unresponsive", within=90
        )
        assert stalled.data.queue == REQUESTS_QUEUE.name

        scheduler.signal(signal.SIGCONT)
        warren.start("agent", MODULE)
        for job in waiting:
            job.result(timeout=60)
    log = supervisor.log.read_text()
    assert log.count("alert.agent_lost") == 1
    assert log.count("alert.service_unresponsive") == 2, "each thing is said once"


def find_alarm(tap: EventTap, service: str) -> ServiceUnresponsive | None:
    return next((event for event in tap.received(ServiceUnresponsive) if event.data.service == service), None)

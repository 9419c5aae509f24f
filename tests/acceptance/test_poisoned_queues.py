"""A publisher can send messages that client libraries cannot decode, and readable ones that the store or the
broker refuses. They stop no queue, and are parked."""

import asyncio
import random
from datetime import timedelta
from uuid import uuid4

from tests.acceptance.store_queries import agents_of, job_types_of, look, rows_of
from tests.acceptance.warren import Warren, until
from tests.broker_access import on_broker, publish
from tests.faults.raw_messages import POISON, TIME_AFTER_9999, TYPE_THAT_IS_NO_TEXT, RawMessage, publish_raw
from tools.reference.golden import golden_events

from warrener_client import SyncClient
from warrener_contracts import topology
from warrener_contracts.events import JobCancelRequested, JobCancelRequestedData, SchedulePutData
from warrener_contracts.messages import Message, build_message
from warrener_contracts.schedule_rules import IntervalRule
from warrener_contracts.state_machine import JobState
from warrener_store.parked.rows import ParkedMessage

MODULE = "tests.acceptance.many_handlers"
PARKED_FROM = (
    *topology.COMMAND_QUEUES,
    topology.REQUESTS_QUEUE,
    topology.STATUS_QUEUE,
    topology.LOGS_QUEUE,
    topology.DEAD_QUEUE,
    topology.UNROUTABLE_QUEUE,
    topology.dispatch_queue("default"),
)
JOBS = 20


def poison_for(queue: str, *kinds: str) -> list[RawMessage]:
    """Straight to a queue, as RabbitMQ's *Move messages* publishes."""
    return [RawMessage("", queue, POISON[kind], f"{queue}: {kind}".encode()) for kind in kinds]


def parked_by_body(warren: Warren) -> dict[bytes, ParkedMessage]:
    return {one.body: one for one in look(warren, lambda store: store.parked(limit=1000))}


def test_2_no_queue_stops_at_what_client_libraries_cannot_decode(warren: Warren) -> None:
    warren.start_all(MODULE)
    poison = [one for queue in PARKED_FROM for one in poison_for(queue.name, *POISON)]
    ignored = [
        *poison_for(topology.TRIGGERS_QUEUE.name, *POISON),  # no schedule waits for these
        *(
            RawMessage(exchange, key, properties, b"ignored")
            for exchange, key in (
                (topology.CONTROL, "all"),
                (topology.HEARTBEATS, "agent.x"),
                (topology.EVENTS, "job.dead.many"),
            )
            for properties in POISON.values()
        ),
    ]
    cancelled, commands = [uuid4() for _ in range(3)], list[RawMessage]()
    for job_id, properties in zip(cancelled, (TIME_AFTER_9999, TYPE_THAT_IS_NO_TEXT), strict=False):
        data = JobCancelRequestedData(job_id=job_id)
        command = build_message(JobCancelRequested(id=str(job_id), source="test", subject="one", data=data))
        commands.append(RawMessage(command.exchange, command.routing_key, properties, command.body))
    asyncio.run(publish_raw(warren.broker_url, [*poison, *ignored, *commands]))
    with SyncClient(warren.broker_url) as client:
        jobs = [client.request("many") for _ in range(JOBS)]
        client.put_schedules(
            [SchedulePutData(name="hourly", rule=IntervalRule(every=timedelta(hours=1)), job_type="many")]
        )
        client.cancel(cancelled[2])
        assert [job.result(timeout=60) for job in jobs] == [1] * JOBS

    unread, good = (one.body for one in commands)
    wanted = {*(one.body for one in poison), unread}
    parked = until(lambda: wanted <= (found := parked_by_body(warren)).keys() and found, "it to be parked")
    assert {parked[one.body].reason for one in poison} == {"not_json", "unroutable"}
    until(lambda: look(warren, lambda store: store.schedules(["hourly"])), "the schedule to be put")
    rows = until(lambda: len(found := rows_of(warren, cancelled)) == 2 and found, "the cancels to be stored")
    states = {job_id: row.state for job_id, row in rows.items()}
    assert states == dict.fromkeys(cancelled[1:], JobState.CANCELLED), "good commands are carried out"
    assert good not in parked
    # What cannot be read of it may be the death that tells by which queue it came.
    assert parked[unread].reason == "routing_key_mismatch"
    assert [service.process.poll() for service in warren.services] == [None] * 3, "no process ended"
    assert all(service.ready() for service in warren.services)


BEAT = golden_events()["agent.heartbeat.v1"]
ANNOUNCED = golden_events()["agent.announced.v1"]


def publish_refused(url: str) -> None:
    """Publish a process id beyond the column, an announcement of a queue that exists as another kind, and a
    reason beyond an index row."""
    beat = BEAT.model_copy(update={"data": BEAT.data.model_copy(update={"pid": 2**63})})
    heartbeat = build_message(beat)
    announcement = ANNOUNCED.model_copy(
        update={"data": ANNOUNCED.data.model_copy(update={"queues": ("taken",)})}
    )
    nonsense = Message(topology.UNROUTABLE, "many", b"refused", "text/plain", "refused", "", {})
    long_reason = random.Random(1).randbytes(9000).hex()  # what does not compress
    headers = {"warrener-reason": long_reason, "warrener-queue": long_reason}
    on_broker(url, lambda channel: channel.queue_declare(topology.dispatch_queue("taken").name))
    for message in (
        heartbeat,
        heartbeat._replace(exchange=topology.STATUS, routing_key=f"agent.heartbeat.{beat.data.agent_id}"),
        build_message(announcement),
        nonsense._replace(headers=headers),
    ):
        publish(
            url,
            message.exchange,
            message.routing_key,
            message.body,
            content_type=message.content_type,
            message_id=message.message_id,
            message_type=message.type,
            headers=dict(message.headers),
        )


def test_2_what_the_store_or_the_broker_refuses_keeps_nothing_else_waiting(
    warren: Warren, postgres_store_url: str
) -> None:
    warren.store_url = warren.ledger_url = postgres_store_url
    warren.start_all(MODULE)
    publish_refused(warren.broker_url)
    with SyncClient(warren.broker_url) as client:
        jobs = [client.request("many") for _ in range(JOBS)]
        assert [job.result(timeout=60) for job in jobs] == [1] * JOBS
    until(lambda: b"refused" in parked_by_body(warren), "the message with the long reason to be parked")
    announced_by = ANNOUNCED.data.job_types[0].name
    until(lambda: announced_by in job_types_of(warren), "the announcement to be stored")
    agent_id = BEAT.data.agent_id
    until(lambda: agent_id in {one.agent_id for one in agents_of(warren)}, "the heartbeat to be stored")
    assert all(service.ready() for service in warren.services)

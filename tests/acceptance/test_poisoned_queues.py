"""A publisher can send messages that client libraries cannot decode. They stop no queue, and are parked."""

import asyncio
from datetime import timedelta
from uuid import uuid4

from tests.acceptance.store_queries import look, rows_of
from tests.acceptance.warren import Warren, until
from tests.faults.raw_messages import (
    POISON,
    TIME_AFTER_9999,
    TYPE_THAT_IS_NO_TEXT,
    RawMessage,
    publish_raw,
)

from warrener_client import SyncClient
from warrener_contracts.events import JobCancelRequested, JobCancelRequestedData, SchedulePutData
from warrener_contracts.messages import build_message
from warrener_contracts.schedule_rules import IntervalRule
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import (
    COMMAND_QUEUES,
    CONTROL,
    DEAD_QUEUE,
    EVENTS,
    HEARTBEATS,
    LOGS_QUEUE,
    REQUESTS_QUEUE,
    STATUS_QUEUE,
    TRIGGERS_QUEUE,
    UNROUTABLE_QUEUE,
    dispatch_queue,
)
from warrener_store.parked.rows import ParkedMessage

MODULE = "tests.acceptance.many_handlers"
PARKED_FROM = (
    REQUESTS_QUEUE,
    STATUS_QUEUE,
    LOGS_QUEUE,
    DEAD_QUEUE,
    UNROUTABLE_QUEUE,
    dispatch_queue("default"),
)
DECODED_BY_FASTSTREAM = ("a time after the year 9999", "a list nested 3,000 times")
JOBS = 20


def poison_for(queue: str, *kinds: str) -> list[RawMessage]:
    """Straight to a queue, as RabbitMQ's *Move messages* publishes."""
    return [RawMessage("", queue, POISON[kind], f"{queue}: {kind}".encode()) for kind in kinds]


def parked_by_body(warren: Warren) -> dict[bytes, ParkedMessage]:
    return {one.body: one for one in look(warren, lambda store: store.parked(limit=1000))}


def test_2_no_queue_stops_at_what_client_libraries_cannot_decode(warren: Warren) -> None:
    warren.start_all(MODULE)
    commands = [one for queue in COMMAND_QUEUES for one in poison_for(queue.name, *DECODED_BY_FASTSTREAM)]
    others = [one for queue in PARKED_FROM for one in poison_for(queue.name, *POISON)]
    ignored = [
        *poison_for(TRIGGERS_QUEUE.name, *POISON),  # no schedule waits for these
        *(
            RawMessage(exchange, key, properties, b"ignored")
            for exchange, key in ((CONTROL, "all"), (HEARTBEATS, "agent.x"), (EVENTS, "job.dead.many"))
            for properties in POISON.values()
        ),
    ]
    asyncio.run(publish_raw(warren.broker_url, [*commands, *others, *ignored]))
    with SyncClient(warren.broker_url) as client:
        jobs = [client.request("many") for _ in range(JOBS)]
        client.put_schedules(
            [SchedulePutData(name="hourly", rule=IntervalRule(every=timedelta(hours=1)), job_type="many")]
        )
        cancelled = uuid4()
        client.cancel(cancelled)
        assert [job.result(timeout=60) for job in jobs] == [1] * JOBS

    wanted = {one.body for one in (*commands, *others)}
    parked = until(lambda: wanted <= (found := parked_by_body(warren)).keys() and found, "it to be parked")
    for one in commands:
        row = parked[one.body]
        assert (row.queue, row.reason) == (one.routing_key, "delivery_limit")
        assert row.detail.endswith("a property or a header of it cannot be read")
    assert {parked[one.body].reason for one in others} == {"not_json", "unroutable"}
    until(lambda: look(warren, lambda store: store.schedules(["hourly"])), "the schedule to be put")
    until(lambda: rows_of(warren, [cancelled]), "the cancel to be stored")
    assert [service.process.poll() for service in warren.services] == [None] * 3, "no process ended"
    assert all(service.ready() for service in warren.services)


def test_2_a_good_command_with_such_a_property_is_carried_out_or_parked_whole(warren: Warren) -> None:
    """Parked if the lean client cannot read the property either; else published again without it."""
    warren.start("scheduler")
    warren.start("supervisor")
    warren.wait_ready()
    ids = [uuid4(), uuid4()]
    cancels = [
        build_message(
            JobCancelRequested(
                id=str(job_id), source="test", subject=str(job_id), data=JobCancelRequestedData(job_id=job_id)
            )
        )
        for job_id in ids
    ]
    both = [
        RawMessage(cancel.exchange, cancel.routing_key, properties, cancel.body)
        for cancel, properties in zip(cancels, (TIME_AFTER_9999, TYPE_THAT_IS_NO_TEXT), strict=True)
    ]
    asyncio.run(publish_raw(warren.broker_url, both))
    until(lambda: rows_of(warren, ids[1:]), "the second to be carried out")
    parked = until(lambda: parked_by_body(warren), "the first to be parked")
    assert list(parked) == [cancels[0].body]
    assert (parked[cancels[0].body].exchange, parked[cancels[0].body].routing_key) == cancels[0][:2]
    assert rows_of(warren, ids)[ids[1]].state is JobState.CANCELLED

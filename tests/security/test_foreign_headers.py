"""Headers that a client sets and a broker acts on: more keys for a message, a history of its deaths."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import aiormq
import pytest
from pamqp.commands import Basic
from tests.broker_access import channel_on, delete_queues
from tests.conformance.bus_rigs import receive
from tests.faults.broker_users import BrokerUser
from tests.security.attacks import attack
from tests.servers.kinds import RabbitMQServer
from tools.reference.golden import golden_events

from warrener_contracts import topology
from warrener_contracts.codec import DecodeFailure
from warrener_contracts.inbox import decode_message
from warrener_contracts.messages import build_message
from warrener_runtime.bus import Bus, Delivery, open_bus
from warrener_supervisor.dead_letters import rebuild_message, to_parked_message
from warrener_supervisor.requeue import requeued_message

EVENTS = golden_events()
FORGED: dict[str, Any] = {
    "x-first-death-queue": "warrener.status",
    "x-first-death-reason": "expired",
    "x-last-death-queue": "warrener.status",
    "x-delay": "3600000",
    "x-opt-delivery-time": "1",
    "x-delivery-count": "9",
    "x-acquired-count": "9",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}


@pytest.fixture
async def bus(vhost_url: str) -> AsyncIterator[Bus]:
    one = open_bus(vhost_url, name="services")
    await one.start()
    await one.declare(topology.TOPOLOGY)
    yield one
    await one.close()


@pytest.fixture
def user(broker: RabbitMQServer, vhost_url: str) -> Iterator[BrokerUser]:
    one = BrokerUser(broker, vhost_url)
    one.permit("^$", r"^warrener\.", "^$")
    yield one
    one.remove()


async def publish_as(user: BrokerUser, exchange: str, key: str, body: bytes, **headers: Any) -> bool:
    """Publish with these headers; False if the broker refuses it."""
    try:
        async with channel_on(user.url) as channel:
            properties = Basic.Properties(
                headers=headers, content_type="application/cloudevents+json", delivery_mode=2
            )
            await channel.basic_publish(body, exchange=exchange, routing_key=key, properties=properties)
    except aiormq.exceptions.ChannelAccessRefused:
        return False
    return True


def failures(deliveries: list[Delivery]) -> list[bool]:
    """True for each delivery that is read as no event."""
    return [
        all(isinstance(found, DecodeFailure) for found in decode_message(delivery)) for delivery in deliveries
    ]


@attack("asker", "request another job type by CC or BCC", refused="the broker (4.x), else the key it came by")
@pytest.mark.parametrize("header", ["CC", "BCC"])
async def test_a_copy_brings_no_request_that_the_key_does_not_permit(
    bus: Bus, user: BrokerUser, header: str
) -> None:
    user.permit_keys(topology.REQUESTS, r"^billing\..+$")
    refund = build_message(EVENTS["job.requested.v1"])
    assert not refund.routing_key.startswith("billing.")
    copies = {header: [refund.routing_key]}
    assert not await publish_as(user, topology.REQUESTS, refund.routing_key, refund.body)
    copied = await publish_as(user, topology.REQUESTS, "billing.report", refund.body, **copies)
    report = refund.body.replace(refund.routing_key.encode(), b"billing.report")
    assert await publish_as(user, topology.REQUESTS, "billing.report", report)
    requests = await bus.subscribe(topology.REQUESTS_QUEUE.name, prefetch=10)
    assert failures(await receive(requests, 1 + copied)) == [*[True] * copied, False]


@attack("operator", "cancel a job by CC of a permitted command", refused="the broker (4.x), else the key")
async def test_a_copy_brings_no_command_that_the_key_does_not_permit(bus: Bus, user: BrokerUser) -> None:
    user.permit_keys(topology.COMMANDS, r"^schedule\.")
    cancel = build_message(EVENTS["job.cancel_requested.v1"])
    copies = {"CC": [cancel.routing_key]}
    copied = await publish_as(user, topology.COMMANDS, "schedule.put", cancel.body, **copies)
    put = build_message(EVENTS["schedule.put.v1"])
    assert await publish_as(user, topology.COMMANDS, put.routing_key, put.body)
    cancels = await bus.subscribe(topology.SUPERVISOR_COMMANDS.name, prefetch=10)
    assert failures(await receive(cancels, copied)) == [True] * copied
    puts = await bus.subscribe(topology.SCHEDULER_COMMANDS.name, prefetch=10)
    assert failures(await receive(puts, 1 + copied)) == [*[True] * copied, False]


@attack("agent", "have headers acted on when a report is published again", refused="they are dropped")
async def test_headers_that_a_broker_acts_on_do_not_go_with_a_message_that_is_published_again(
    bus: Bus, user: BrokerUser, vhost_url: str
) -> None:
    await asyncio.to_thread(delete_queues, vhost_url, topology.STATUS_QUEUE.name)
    outcome = build_message(EVENTS["attempt.succeeded.v1"])
    assert await publish_as(user, topology.STATUS, outcome.routing_key, outcome.body, **FORGED)
    [delivery] = await receive(await bus.subscribe(topology.UNROUTABLE_QUEUE.name, prefetch=1), 1)
    again = rebuild_message(delivery)
    assert again.headers["traceparent"] == FORGED["traceparent"]
    assert not FORGED.keys() & again.headers.keys() - {"traceparent"}
    parked = to_parked_message(delivery, datetime.now(UTC))
    assert dict(parked.headers) == {"traceparent": FORGED["traceparent"], "warrener-user": ""}
    earlier = replace(parked, headers={**parked.headers, "CC": "x", "x-delay": "9"})
    assert not {"CC", "x-delay"} & requeued_message(earlier).headers.keys(), "parked by an earlier version"


@attack(
    "agent", "park a forged command, which is requeued with a service's rights", refused="the key it parks by"
)
async def test_a_parked_message_goes_back_to_no_queue_but_that_of_its_key(bus: Bus, user: BrokerUser) -> None:
    user.permit_keys(topology.DEAD, r"^parked\.warrener\.queue\.loading$")
    cancel = build_message(EVENTS["job.cancel_requested.v1"])
    forged = {
        "warrener-reason": "unknown_event",
        "warrener-queue": topology.SUPERVISOR_COMMANDS.name,
        "warrener-exchange": topology.COMMANDS,
        "warrener-routing-key": cancel.routing_key,
    }
    key = "parked.warrener.queue.loading"
    assert await publish_as(user, topology.DEAD, key, cancel.body, **forged)
    [delivery] = await receive(await bus.subscribe(topology.DEAD_QUEUE.name, prefetch=1), 1)
    parked = to_parked_message(delivery, datetime.now(UTC))
    assert parked.queue == f"{topology.DEAD}:{key}"
    assert requeued_message(parked).routing_key != topology.SUPERVISOR_COMMANDS.name

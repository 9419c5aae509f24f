"""What a guest wrote is published again, by a supervisor with more rights, with the guest's alone."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from pamqp.commands import Basic
from services.supervisor.tests.stage import NOW, event, make, opened
from tests.broker_access import channel_on
from tests.faults.broker_users import BrokerUser
from tests.security.attacks import attack
from tests.security.guests import FOREIGN, OWN, House
from tests.store_rows import parked_message
from tools.reference.golden import golden_events

from warrener_amqp.properties import read_properties
from warrener_contracts import events, topology
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.inbox import decode_message
from warrener_contracts.messages import Message, build_message
from warrener_contracts.permissions import BrokerRole
from warrener_contracts.state_machine import JobState
from warrener_runtime.bus import open_bus
from warrener_runtime.bus.types import Delivery
from warrener_store.jobs.rows import JobRow
from warrener_supervisor.dead_letters import (
    Repeat,
    find_missing_queue,
    given_up_dispatches,
    judge_given_up,
    rebuild_message,
    to_parked_message,
)

REFUND = build_message(golden_events()["job.requested.v1"])
ADDRESS = {"warrener-exchange": topology.REQUESTS, "warrener-routing-key": REFUND.routing_key}
PARKED = {"warrener-reason": "unknown_job_type", "warrener-queue": topology.REQUESTS_QUEUE.name, **ADDRESS}
KIND = "application/cloudevents+json"


def agent(house: House) -> BrokerUser:
    """The user of agents that run `flights.*` from `etl`."""
    return house.user(BrokerRole.AGENT, queues=(OWN,), job_types=("flights.*",))


async def dead_letter_of(house: House, user: BrokerUser, exchange: str, key: str, **headers: Any) -> Delivery:
    """Publish a request as this user; return it as a supervisor receives it from `warrener.dead`."""
    async with channel_on(user.url) as channel:
        if exchange.startswith("warrener.ping."):
            await channel.exchange_declare(exchange, exchange_type="topic", auto_delete=True)
            await channel.exchange_bind(topology.DEAD, exchange, "#")
        properties = Basic.Properties(headers=headers, content_type=KIND, message_id=str(uuid4()))
        await channel.basic_publish(REFUND.body, exchange=exchange, routing_key=key, properties=properties)
        bus = open_bus(house.url, name="supervisor")
        await bus.start()
        subscription = await bus.subscribe(topology.DEAD_QUEUE.name, prefetch=1)
        async for batch in subscription:
            await subscription.ack(batch)
            await subscription.close()
            await bus.close()
            return batch[0]
    raise AssertionError("expected a delivery, got the end")


FORGED_DEATH = {
    "queue": topology.REQUESTS_QUEUE.name,
    "reason": "rejected",
    "exchange": topology.REQUESTS,
    "routing-keys": [REFUND.routing_key],
}
OWN_KEY = f"parked.warrener.queue.{OWN}"


@attack("agent", "park a forged request by an exchange of its own", refused="supervisor: exchange and key")
@attack("agent", "park a forged request by the key of its queue", refused="supervisor: exchange and key")
@attack("agent", "write the death of a request itself", refused="supervisor: the key of a dead letter")
@pytest.mark.parametrize(
    ("exchange", "key", "headers"),
    [
        (f"warrener.ping.{1:032x}", "parked.warrener.requests", PARKED),
        (f"warrener.ping.{2:032x}", "dead.requests", {"x-death": [FORGED_DEATH]}),
        (topology.DEAD, OWN_KEY, PARKED),
        (topology.DEAD, OWN_KEY, {"x-death": [FORGED_DEATH]}),
    ],
)
async def test_no_message_of_an_agent_counts_as_a_parked_request(
    house: House, exchange: str, key: str, headers: dict[str, Any]
) -> None:
    delivery = await dead_letter_of(house, agent(house), exchange, key, **headers)
    parked = to_parked_message(delivery, NOW)
    assert (parked.queue, parked.reason) == (f"{exchange}:{key}", "unroutable")
    async with opened() as supervisor:
        await supervisor.store.park([parked])
        await supervisor.publish(event(events.ParkedRequeueRequested, ids=[parked.parked_id], by="ann"))
        assert not supervisor.requested()
        assert len(await supervisor.store.parked()) == 1, "it stays"


def forged_dispatch(row: JobRow) -> Message:
    """The dispatch of this job's attempt, with another job type and other arguments."""
    forged = {"job_type": "payments.refund", "queue": FOREIGN, "arguments": {"to": "mallory"}}
    data = row.dispatched_data().model_copy(update=forged)
    return build_message(events.AttemptDispatched(id="forged", source="mallory", data=data))


@attack("agent", "have a forged dispatch given up, for another queue", refused="supervisor: the job's row")
async def test_a_dispatch_that_was_given_up_goes_out_again_as_its_row_has_it() -> None:
    row = make(JobState.QUEUED)
    death = {"queue": "warrener.queue.default", "reason": "delivery_limit"}
    given_up = Delivery(
        forged_dispatch(row).body,
        "dead.queue.default",
        topology.DEAD,
        redelivered=False,
        tag=1,
        epoch=1,
        content_type=KIND,
        headers={"x-death": [death]},
    )
    [found] = given_up_dispatches(given_up, 10) or []
    assert judge_given_up(found, row, NOW) == Repeat(row, topology.DELAY_LEVELS[1], 1)
    assert judge_given_up(found, replace(row, queue=FOREIGN), NOW) is None, "that of another queue"
    assert given_up_dispatches(given_up._replace(routing_key="dead.queue.payroll"), 10) is None


@attack("agent", "park a forged dispatch for a peer of its queue", refused="supervisor: the job's row")
async def test_a_parked_dispatch_is_requeued_as_its_row_has_it() -> None:
    row = make(JobState.QUEUED)
    parked = parked_message(
        "forged", queue="warrener.queue.default", content_type=KIND, body=forged_dispatch(row).body
    )
    async with opened(row) as supervisor:
        await supervisor.store.park([parked])
        await supervisor.publish(event(events.ParkedRequeueRequested, ids=["forged"], by="ann"))
        [sent] = supervisor.dispatched()
        assert (sent.data.job_type, sent.data.queue) == (row.job_type, "default")
        assert sent.data.arguments == row.arguments
        assert not await supervisor.store.parked()


def table(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + value


def sized(kind: bytes, content: bytes) -> bytes:
    return kind + len(content).to_bytes(4, "big") + content


OWN_DEATH = sized(b"F", table(b"queue", sized(b"S", b"warrener.ping.1")))
LATE = sized(b"F", table(b"time", b"T" + (2**62).to_bytes(8, "big")))
HIDDEN = table(b"x-death", sized(b"A", OWN_DEATH + LATE))
CLEAN = table(b"x-death", sized(b"A", sized(b"F", table(b"queue", sized(b"S", b"warrener.status")))))


@attack("asker", "hide a death behind one that cannot be read (3.10)", refused="inbox: it must be readable")
@attack("asker", "hide a death behind a second header of that name", refused="inbox: it must be readable")
@pytest.mark.parametrize("headers", [HIDDEN, table(b"x-death", sized(b"A", OWN_DEATH)) + CLEAN])
def test_a_death_that_cannot_be_read_is_no_clean_history(headers: bytes) -> None:
    read = read_properties((1 << 13).to_bytes(2, "big") + sized(b"", headers), 0)
    delivery = Delivery(REFUND.body, REFUND.routing_key, topology.REQUESTS, redelivered=False, tag=1, epoch=1)
    assert isinstance(decode_message(delivery)[0], DecodedEvent)
    came = delivery._replace(headers=read.headers, readable=read.readable)
    assert all(isinstance(one, DecodeFailure) for one in decode_message(came))
    assert find_missing_queue(came._replace(exchange=topology.STATUS)) is None


@attack("asker", "send a message of which no property can be read", refused="inbox: it must be readable")
def test_a_message_without_readable_properties_is_no_event() -> None:
    delivery = Delivery(
        REFUND.body, REFUND.routing_key, topology.REQUESTS, redelivered=False, tag=1, epoch=1, readable=False
    )
    assert all(isinstance(one, DecodeFailure) for one in decode_message(delivery))


@attack("agent", "have its report requeued as one of the supervisor", refused="supervisor: the first user")
async def test_a_report_that_is_published_again_is_still_of_its_user() -> None:
    report = build_message(golden_events()["attempt.succeeded.v1"])
    came = Delivery(report.body, report.routing_key, topology.STATUS, redelivered=False, tag=1, epoch=1)
    came = came._replace(content_type=KIND, user_id="mallory", headers={"warrener-user": "supervisor"})
    again = rebuild_message(came)
    assert (again.exchange, again.headers["warrener-user"]) == ("", "mallory")
    assert to_parked_message(came, NOW).headers["warrener-user"] == "mallory"

"""Users with the permissions of a role can do their work, and publish nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
from tests.broker_access import count_messages
from tests.faults.broker_users import BrokerUser
from tests.servers.kinds import RabbitMQServer
from tools.reference.golden import golden_events

from warrener_contracts.events import AgentAnnounced
from warrener_contracts.events.envelope import AGENT, ANYONE, Party
from warrener_contracts.messages import Message, build_message, delayed_by
from warrener_contracts.permissions import BrokerRole, Holder
from warrener_contracts.topology import (
    CONTROL,
    DELAY_LEVELS,
    STATUS_QUEUE,
    TOPOLOGY,
    Topology,
    agent_id_of,
    control_queue,
    dispatch_queue,
    pulse_key,
    reply_address,
    reply_queue,
)
from warrener_runtime.bus import Bus, PublishResult, open_bus

EXAMPLES = golden_events()
QUEUES = ("loading", "default")


@pytest.fixture(params=[AGENT, ANYONE], ids=["agent", "client"])
def party(request: pytest.FixtureRequest) -> Party:
    found = request.param
    assert isinstance(found, Party)
    return found


@pytest.fixture
def user(broker: RabbitMQServer, vhost_url: str) -> Iterator[BrokerUser]:
    """The user with the role."""
    one = BrokerUser(broker, vhost_url)
    yield one
    one.remove()


@pytest.fixture
async def bus(vhost_url: str, user: BrokerUser, party: Party) -> AsyncIterator[Bus]:
    """A bus of the user, which declares what agents and clients declare."""
    builder = open_bus(vhost_url, name="builder")
    await builder.start()
    await builder.declare(TOPOLOGY.with_queues([dispatch_queue(queue) for queue in QUEUES]))
    await builder.close()
    one = open_bus(user.url, name="restricted")
    if party is AGENT:
        user.hold(Holder(BrokerRole.AGENT, user.name, queues=QUEUES, child_types=("*",)))
        own = control_queue(agent_id_of(user.name, "loader-1"), QUEUES)
    else:
        user.hold(Holder(BrokerRole.OPERATOR, user.name, job_types=("*",)))
        own = reply_queue(reply_address(user.name, uuid4().hex))
    await one.start()
    await one.declare(Topology((), (own,)))
    yield one
    await one.close()


def own_messages(party: Party, user: str) -> list[Message]:
    """What the party publishes."""
    messages = [build_message(event) for event in EXAMPLES.values() if party in event.routes[0].senders]
    if party is AGENT:
        own, example = agent_id_of(user, "loader-1"), EXAMPLES["agent.heartbeat.v1"].data.agent_id
        dispatch = build_message(EXAMPLES["attempt.dispatched.v1"])
        pulse = Message(CONTROL, pulse_key(own), b"", "text/plain", "pulse", "pulse", {}, persistent=False)
        messages += [delayed_by(dispatch, DELAY_LEVELS[0]), pulse]
        key = AgentAnnounced.routes[0].key
        messages = [
            one._replace(routing_key=f"{key}.loading") if one.routing_key == key else one for one in messages
        ]
        messages = [one._replace(routing_key=one.routing_key.replace(example, own)) for one in messages]
    return messages


async def test_a_user_publishes_its_own_messages_and_pings(bus: Bus, party: Party, user: BrokerUser) -> None:
    results = await bus.publish(own_messages(party, user.name))
    assert set(results) == {PublishResult.CONFIRMED}
    await bus.ping(timeout=60)


async def test_a_user_publishes_no_message_of_others(bus: Bus, vhost_url: str) -> None:
    lost = build_message(EXAMPLES["attempt.lost.v1"])
    straight = lost._replace(exchange="", routing_key=STATUS_QUEUE.name)
    for message in (lost, straight):
        [result] = await bus.publish([message], timeout=3)
        assert result is not PublishResult.CONFIRMED, message.exchange
    await bus.ping(timeout=60)
    assert await asyncio.to_thread(count_messages, vhost_url, STATUS_QUEUE.name) == [0]

"""Users with the documented permissions can do their work, and publish nothing else."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.faults.broker_users import BrokerUser
from tests.servers.kinds import RabbitMQServer
from tools.reference.golden import golden_events
from tools.reference.topology_page import publish_permissions

from warrener_contracts.events.envelope import AGENT, ANYONE, Party
from warrener_contracts.messages import Message, build_message, delayed_by
from warrener_contracts.topology import (
    CONTROL,
    DELAY_LEVELS,
    STATUS_QUEUE,
    TOPOLOGY,
    control_queue,
    dispatch_queue,
    pulse_key,
    reply_queue,
)
from warrener_runtime.bus import Bus, PublishResult, open_bus

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "restrict-permissions.md"
DOCUMENTED = re.compile(r"set_permissions -p / (\w+) +'(.*)' '(.*)' '(.*)'")
EXAMPLES = golden_events()
AGENT_ID = "loader-1"


@pytest.fixture(params=[AGENT, ANYONE], ids=["agent", "client"])
def party(request: pytest.FixtureRequest) -> Party:
    found = request.param
    assert isinstance(found, Party)
    return found


@pytest.fixture
def restricted_url(vhost_url: str, broker: RabbitMQServer, party: Party) -> Iterator[str]:
    """The virtual host for a user with the permissions of the page."""
    documented = {name: rights for name, *rights in DOCUMENTED.findall(PAGE.read_text(encoding="utf-8"))}
    user = BrokerUser(broker, vhost_url)
    user.permit(*documented["agent" if party is AGENT else "client"])
    for exchange, keys in publish_permissions(party).items():
        user.permit_keys(exchange, keys)
    yield user.url
    user.remove()


@pytest.fixture
async def bus(restricted_url: str) -> AsyncIterator[Bus]:
    """A bus of that user, which declares what agents and clients declare."""
    one = open_bus(restricted_url, name="restricted")
    await one.start()
    queues = [dispatch_queue("loading"), control_queue(AGENT_ID, ["loading"]), reply_queue("desk-4")]
    await one.declare(TOPOLOGY.with_queues(queues))
    yield one
    await one.close()


def own_messages(party: Party) -> list[Message]:
    """What the party publishes."""
    messages = [build_message(event) for event in EXAMPLES.values() if party in event.routes[0].senders]
    if party is AGENT:
        dispatch = build_message(EXAMPLES["attempt.dispatched.v1"])
        pulse = Message(
            CONTROL, pulse_key(AGENT_ID), b"", "text/plain", "pulse", "pulse", {}, persistent=False
        )
        messages += [delayed_by(dispatch, DELAY_LEVELS[0]), pulse]
    return messages


async def test_a_user_publishes_its_own_messages_and_pings(bus: Bus, party: Party) -> None:
    results = await bus.publish(own_messages(party))
    assert set(results) == {PublishResult.CONFIRMED}
    await bus.ping(timeout=60)


async def test_a_user_publishes_no_message_of_others(bus: Bus) -> None:
    lost = build_message(EXAMPLES["attempt.lost.v1"])
    straight = lost._replace(exchange="", routing_key=STATUS_QUEUE.name)
    for message in (lost, straight):
        [result] = await bus.publish([message], timeout=3)
        assert result is not PublishResult.CONFIRMED, message.exchange
    await bus.ping(timeout=60)
    assert (await bus.backlog(STATUS_QUEUE.name)).waiting == 0

"""Pieces of the topology that an operator takes away come back; those that may not come back have a name."""

from collections.abc import AsyncIterator

import aiormq
import pytest
from tests.faults.broker_users import BrokerUser
from tests.servers.kinds import RabbitMQServer

from warrener_contracts.topology import DEAD, DEAD_QUEUE, LOGS, REQUESTS_QUEUE, TOPOLOGY, TRIGGERS_QUEUE
from warrener_runtime.bus import open_bus
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import SystemClock
from warrener_store.incidents.rows import IncidentFilter
from warrener_store.memory import MemoryStore
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.wiring import TopologyKeeper


@pytest.fixture
async def bus(vhost_url: str) -> AsyncIterator[Bus]:
    one = open_bus(vhost_url, name="supervisor")
    await one.start()
    await one.declare(TOPOLOGY)
    yield one
    await one.close()


async def is_bound(url: str, exchange: str, key: str) -> bool:
    """True if a message under the key would reach a queue."""
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel(publisher_confirms=True)
        try:
            await channel.basic_publish(b"{", exchange=exchange, routing_key=key, mandatory=True)
        except (aiormq.exceptions.PublishError, aiormq.exceptions.ChannelNotFoundEntity):
            return False
        return True
    finally:
        await connection.close()


def keeper_of(bus: Bus, store: MemoryStore) -> TopologyKeeper:
    ports = SupervisorPorts(bus, store, SystemClock(), Timings())
    return TopologyKeeper(ports, IncidentReporter(store.escalations, ports.clock))


async def test_a_piece_that_nobody_misses_is_declared_again(bus: Bus, vhost_url: str) -> None:
    connection = await aiormq.connect(vhost_url)
    operator = await connection.channel()
    await operator.exchange_delete(LOGS)
    await operator.queue_unbind(DEAD_QUEUE.name, DEAD, "#")
    await operator.queue_delete(REQUESTS_QUEUE.name)
    await connection.close()
    assert not await is_bound(vhost_url, LOGS, "attempt.logged.flights.load")
    await keeper_of(bus, MemoryStore()).run_once()
    assert await is_bound(vhost_url, LOGS, "attempt.logged.flights.load")
    before = (await bus.backlog(DEAD_QUEUE.name)).waiting
    assert await is_bound(vhost_url, DEAD, "parked.requests")
    assert (await bus.backlog(DEAD_QUEUE.name)).waiting == before + 1
    assert await is_bound(vhost_url, "", REQUESTS_QUEUE.name)


async def test_a_piece_that_may_not_be_declared_has_one_incident_with_its_name(
    bus: Bus, vhost_url: str, broker: RabbitMQServer
) -> None:
    user = BrokerUser(broker, vhost_url)
    user.permit(configure="^(?!warrener.triggers$).*")
    restricted = open_bus(user.url, name="supervisor")
    await restricted.start()
    try:
        connection = await aiormq.connect(vhost_url)
        operator = await connection.channel()
        await operator.queue_delete(TRIGGERS_QUEUE.name)
        await operator.queue_unbind(DEAD_QUEUE.name, DEAD, "#")
        await connection.close()
        store = MemoryStore()
        keeper = keeper_of(restricted, store)
        await keeper.run_once()
        await keeper.run_once()
        incidents = await store.escalations.incidents(IncidentFilter())
        assert [incident.subject for incident in incidents] == [f"queue {TRIGGERS_QUEUE.name}"]
        assert f"run `rabbitmqctl set_permissions -p {user.vhost} {user.name} " in str(incidents[0].sample)
        waiting = (await bus.backlog(DEAD_QUEUE.name)).waiting
        assert await is_bound(vhost_url, DEAD, "parked.requests")
        assert (await bus.backlog(DEAD_QUEUE.name)).waiting == waiting + 1, "the others are declared"
    finally:
        await restricted.close()
        user.remove()

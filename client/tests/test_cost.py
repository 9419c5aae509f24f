"""A client costs the broker what it needs: one connection, one look, and a queue once a reply is wanted."""

from collections.abc import AsyncIterator

import pytest
from tests.faults.amqp_counter import AmqpCounter
from tests.servers.kinds import RabbitMQServer

from warrener_client import Client, JobSpec
from warrener_client.testing import StandIn
from warrener_runtime.bus import open_bus

_HANDSHAKE = 3  # Connection.StartOk, TuneOk, Open


@pytest.fixture
async def counter(broker: RabbitMQServer) -> AsyncIterator[AmqpCounter]:
    counter = AmqpCounter(broker.port)
    await counter.start()
    yield counter
    await counter.stop()


def through(counter: AmqpCounter, vhost_url: str) -> str:
    return f"amqp://guest:guest@127.0.0.1:{counter.port}/{vhost_url.rpartition('/')[2]}"


async def test_19_a_client_costs_one_connection_and_what_it_needs(
    counter: AmqpCounter, vhost_url: str
) -> None:
    async with StandIn(open_bus(vhost_url, name="stand-in"), {"hello.greet": lambda _: "hello"}):
        async with Client(through(counter, vhost_url)) as client:
            connecting = counter.calls
            [job] = await client.request_batch([JobSpec("hello.greet")], want_results=False)
            requesting = counter.calls - connecting
            answered = await client.request("hello.greet")
            assert await answered.result(timeout=60) == "hello"
            replying = counter.calls - connecting - requesting
        assert not job.is_finished
    assert counter.connections == 1
    assert connecting == _HANDSHAKE
    assert requesting == 5, "a channel for one look, and one that publishes"
    assert replying == 10, "an exchange, a queue, its binding, and a consumer"

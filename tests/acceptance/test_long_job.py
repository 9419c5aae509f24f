"""A job that runs longer than the broker lets a delivery wait for its acknowledgement."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from pamqp.common import FieldValue
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.run_notes import runs_in
from tests.acceptance.store_queries import find_job
from tests.acceptance.warren import Warren, until
from tests.servers.kinds import RabbitMQServer

from warrener_client import SyncClient

UNACKNOWLEDGED = """
lists:sum([U || [{name, {resource, _, queue, <<"warrener.queue.default">>}}, {messages_unacknowledged, U}]
    <- rabbit_amqqueue:info_all(<<"/">>, [name, messages_unacknowledged])])
"""

_QUORUM: dict[str, FieldValue] = {"x-queue-type": "quorum", "x-expires": 120_000}


@pytest.fixture
def impatient(own_rabbitmq: RabbitMQServer) -> Iterator[RabbitMQServer]:
    """A broker that closes a channel after two seconds without an acknowledgement, instead of half an
    hour."""
    settings = ("consumer_timeout", "channel_tick_interval")
    before = [
        own_rabbitmq.evaluate(f"{{ok, V}} = application:get_env(rabbit, {name}), V") for name in settings
    ]
    for name, milliseconds in zip(settings, ("2000", "500"), strict=True):
        own_rabbitmq.evaluate(f"application:set_env(rabbit, {name}, {milliseconds})")
    yield own_rabbitmq
    for name, milliseconds in zip(settings, before, strict=True):
        own_rabbitmq.evaluate(f"application:set_env(rabbit, {name}, {milliseconds})")


@pytest.fixture
def warren(warren: Warren, impatient: RabbitMQServer) -> Warren:
    """A warren on that broker."""
    warren.broker_url = impatient.url
    return warren


@pytest.mark.parametrize(
    "knows",
    [
        pytest.param(True, id="known to the agent"),
        # Its channel is closed again and again, and all is given out again.
        pytest.param(False, id="not known"),
    ],
)
def test_a_job_outlives_the_brokers_patience_and_runs_once(
    warren: Warren, impatient: RabbitMQServer, *, knows: bool
) -> None:
    if knows:
        warren.environment = {"WARRENER_AGENT_EARLY_ACK": "0.5"}
    gate = warren.folder / "gate"
    make_gate(gate)
    warren.start_all("tests.acceptance.drain_handlers")
    with SyncClient(warren.broker_url) as client:
        job = client.request("ends.soon", {"gate": str(gate)})
        until(lambda: runs_in(warren.folder), "the job to run")
        if knows:
            until(
                lambda: impatient.evaluate(UNACKNOWLEDGED).strip() == "0", "its delivery to be acknowledged"
            )
        for _ in range(2):  # twice: the broker looks at each channel at a time of its own
            asyncio.run(patience_ends(warren.broker_url))
        open_gate(gate)
        assert job.result(timeout=60) == 1

    assert len(runs_in(warren.folder)) == 1, "it ran once"
    row, parked = find_job(warren, job.job_id)
    assert (row.attempt, row.losses, row.failures) == (1, 0, 0)
    assert not parked


async def patience_ends(url: str) -> None:
    """Return when the broker has taken a delivery that came after this call from its consumer.

    Told by the message that comes to the other consumer: up to RabbitMQ 4.2 the channel is closed, from 4.3
    on the consumer is cancelled, and only of a quorum queue.
    """
    connection = await aio_pika.connect(url)
    async with connection:
        came_again, name = asyncio.Event(), f"patience-{uuid4()}"

        async def keep(message: AbstractIncomingMessage) -> None:
            if message.redelivered:
                await message.ack()
                came_again.set()

        channels = [await connection.channel() for _ in range(2)]
        for channel in channels:
            queue = await channel.declare_queue(name, durable=True, arguments=_QUORUM)
            await queue.consume(keep)
        await channels[0].default_exchange.publish(aio_pika.Message(b""), name)
        async with asyncio.timeout(60):
            await came_again.wait()

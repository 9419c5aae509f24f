"""The pieces that a fault may take away, on a real broker."""

import asyncio

from tests.servers.kinds import RabbitMQServer
from tools.chaos.clients import channel
from tools.chaos.pieces import key_named, pieces

QUEUE = "warrener.control.agent-1.01234567"  # new at each start of its agent


def test_a_queue_for_pings_is_no_piece_that_must_come_back(own_rabbitmq: RabbitMQServer) -> None:
    async def declared() -> tuple[set[tuple[str, ...]], str]:
        async with channel(own_rabbitmq) as one:
            for name in (QUEUE, "warrener.ping.0123"):
                await one.queue_declare(name, exclusive=True)
                await one.queue_bind(name, "amq.direct", "agent.agent-1")
            key = await key_named(own_rabbitmq, "amq.direct", "agent.", QUEUE)
            return set(await pieces(own_rabbitmq)), key

    found, key = asyncio.run(declared())
    own = "warrener.control.*"
    assert found == {("queue", own), ("binding", "amq.direct", "agent.*", own)}
    assert key == "agent.agent-1", "the key of the binding that a fault takes away"

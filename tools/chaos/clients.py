"""What the harness asks the servers directly, past the proxies."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import aiormq
import asyncpg
from aiormq.abc import AbstractChannel, DeliveredMessage
from tests.servers.kinds import RabbitMQServer

TAP = "chaos.tap"
"""A queue that keeps copies of the newest messages of the product, to be published a second time."""
_TAPPED = ("warrener.requests", "warrener.commands", "warrener.dispatch", "warrener.status")
_TAP_LENGTH = 2000
_MESSAGES = """
lists:foldl(fun(Info, Text) ->
    [{name, {resource, _, queue, Name}}, {_, Count}] = Info,
    Text ++ binary_to_list(Name) ++ "=" ++ integer_to_list(Count) ++ " " end, "",
  [Q || Q <- rabbit_amqqueue:info_all(<<"/">>, [name, ~s])])
"""


@asynccontextmanager
async def channel(broker: RabbitMQServer) -> AsyncGenerator[AbstractChannel]:
    """A channel of a connection of its own."""
    connection = await aiormq.connect(broker.url)
    try:
        yield await connection.channel()
    finally:
        await connection.close()


async def add_tap(broker: RabbitMQServer) -> None:
    """Copy what is published from now on."""
    async with channel(broker) as one:
        await one.queue_declare(TAP, durable=True, arguments={"x-max-length": _TAP_LENGTH})
        for exchange in _TAPPED:
            await one.queue_bind(TAP, exchange, "#")


async def remove_tap(broker: RabbitMQServer) -> None:
    """Copy nothing until `add_tap`."""
    async with channel(broker) as one:
        await one.queue_delete(TAP)


async def replay(broker: RabbitMQServer, count: int) -> int:
    """Publish up to `count` tapped messages again, as they were."""
    async with channel(broker) as one:
        taken: list[DeliveredMessage] = []
        while len(taken) < count:
            message = await one.basic_get(TAP, no_ack=True)
            if message.delivery_tag is None:
                break
            taken.append(message)
        for message in taken:
            await one.basic_publish(
                message.body,
                exchange=message.exchange or "",
                routing_key=message.routing_key or "",
                properties=message.header.properties,
            )
    return len(taken)


async def publish(broker: RabbitMQServer, exchange: str, key: str, bodies: Sequence[bytes]) -> None:
    """Publish raw bodies."""
    async with channel(broker) as one:
        for body in bodies:
            await one.basic_publish(
                body,
                exchange=exchange,
                routing_key=key,
                properties=aiormq.spec.Basic.Properties(
                    content_type="application/cloudevents+json", delivery_mode=2
                ),
            )


def queue_lengths(broker: RabbitMQServer, counted: str = "messages") -> dict[str, int]:
    """Messages in each queue of the product; `counted`: the broker's name of what is counted."""
    text = broker.evaluate(_MESSAGES.replace("~s", counted)).strip().strip('"')
    pairs = (pair.rpartition("=") for pair in text.split())
    return {name: int(count) for name, _, count in pairs if name.startswith("warrener.")}


@asynccontextmanager
async def session(url: str) -> AsyncGenerator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection to the database, which does not wait for a server that is silent."""
    async with asyncio.timeout(15):
        connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        connection.terminate()

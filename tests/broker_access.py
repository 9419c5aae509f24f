"""A broker as operators and clients of other languages use it: each call has a connection of its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiormq
from aiormq.abc import AbstractChannel, AbstractConnection
from pamqp.commands import Basic

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import Event

T = TypeVar("T")


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[AbstractConnection]:
    """A connection to the broker."""
    connection = await aiormq.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def channel_on(url: str) -> AsyncGenerator[AbstractChannel]:
    """A channel with a connection of its own."""
    async with connected(url) as connection:
        yield await connection.channel()


def on_broker(url: str, do: Callable[[AbstractChannel], Awaitable[T]]) -> T:
    """Call `do` with a channel."""

    async def once() -> T:
        async with channel_on(url) as channel:
            return await do(channel)

    return asyncio.run(once())


def publish(url: str, exchange: str, key: str, *bodies: bytes, **properties: Any) -> None:
    """Publish persistent messages with these properties; returns once the broker has confirmed them."""

    async def publish_each(channel: AbstractChannel) -> None:
        chosen = Basic.Properties(delivery_mode=2, **properties)
        for body in bodies:
            await channel.basic_publish(body, exchange=exchange, routing_key=key, properties=chosen)

    on_broker(url, publish_each)


def count_messages(url: str, *queues: str) -> list[int]:
    """Count the messages that wait in each queue; 0 for a missing one."""

    async def count(connection: AbstractConnection, queue: str) -> int:
        channel = await connection.channel()  # a missing queue closes it
        try:
            return (await channel.queue_declare(queue, passive=True)).message_count or 0
        except aiormq.exceptions.ChannelNotFoundEntity:
            return 0

    async def count_each() -> list[int]:
        async with connected(url) as connection:
            return [await count(connection, queue) for queue in queues]

    return asyncio.run(count_each())


def take_events(url: str, queue: str) -> list[Event[Any]]:
    """Take all messages out of a queue; their events."""

    async def take(channel: AbstractChannel) -> list[Event[Any]]:
        events: list[Event[Any]] = []
        while (message := await channel.basic_get(queue, no_ack=True)).body or message.delivery_tag:
            found = decode(message.body, message.header.properties.content_type)
            events += [one.event for one in found if isinstance(one, DecodedEvent)]
        return events

    return on_broker(url, take)


def delete_queues(url: str, *queues: str) -> None:
    """Delete queues with their messages."""

    async def delete(channel: AbstractChannel) -> None:
        for queue in queues:
            await channel.queue_delete(queue)

    on_broker(url, delete)

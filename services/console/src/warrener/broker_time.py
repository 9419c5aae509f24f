"""The broker's clock, which AMQP tells of nothing but dead letters."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from aiormq.abc import AbstractChannel, DeliveredMessage

from warrener_contracts import topology


@dataclass(frozen=True, slots=True)
class BrokerTime:
    """The broker's second at a moment that was between `before` and `after` by our clock."""

    before: datetime
    reported_at: datetime
    after: datetime


async def broker_time(channel: AbstractChannel, within: float) -> BrokerTime:
    """Let a message expire, and read in its `x-death` when it did. Raises AMQPError where the broker refuses,
    TimeoutError.

    By two exclusive queues of the kind that every asker has, so it needs no rights beyond a client's. They go
    with the connection.
    """
    address = f"doctor-{uuid4().hex}"
    expiring, destination = f"{address}.death", f"{address}.grave"
    dead_letters = {
        "x-message-ttl": 0,
        "x-dead-letter-exchange": topology.EVENTS,
        "x-dead-letter-routing-key": topology.reply_key(destination),
    }
    await _queue(channel, destination, {}, within)
    await _queue(channel, expiring, dead_letters, within)
    arrived: asyncio.Future[tuple[datetime, datetime]] = asyncio.get_running_loop().create_future()

    async def on_message(message: DeliveredMessage) -> None:
        if not arrived.done():
            arrived.set_result((died_at(message.header.properties.headers), datetime.now(UTC)))

    await channel.basic_consume(
        topology.reply_queue(destination).name, on_message, no_ack=True, timeout=within
    )
    before = datetime.now(UTC)
    await channel.basic_publish(
        b"{}", exchange=topology.EVENTS, routing_key=topology.reply_key(expiring), timeout=within
    )
    reported_at, after = await asyncio.wait_for(arrived, within)
    return BrokerTime(before, reported_at, after)


def died_at(headers: Mapping[str, Any] | None) -> datetime:
    """The broker's second in which the message died. Pure."""
    deaths: list[dict[str, Any]] = (headers or {})["x-death"]
    reported_at: datetime = deaths[0]["time"]
    return reported_at if reported_at.tzinfo else reported_at.replace(tzinfo=UTC)


async def _queue(channel: AbstractChannel, address: str, arguments: dict[str, Any], within: float) -> None:
    name, key = topology.reply_queue(address).name, topology.reply_key(address)
    await channel.queue_declare(name, exclusive=True, arguments=arguments, timeout=within)
    await channel.queue_bind(name, topology.EVENTS, key, timeout=within)

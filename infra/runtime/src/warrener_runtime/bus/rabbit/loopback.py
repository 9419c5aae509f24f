"""The honest ping: a message out by one connection and back by the other."""

import asyncio
from dataclasses import dataclass, field
from uuid import uuid4

from aiormq.abc import DeliveredMessage

from warrener_runtime.bus.port import BusUnreachable, Fate
from warrener_runtime.bus.rabbit.connection import RPC_SECONDS, open_channel
from warrener_runtime.bus.rabbit.consume_channel import ConsumeChannel, write_acks
from warrener_runtime.bus.rabbit.faults import LinkLost, broker_faults
from warrener_runtime.bus.rabbit.frames import unless_ended
from warrener_runtime.bus.rabbit.link import Link
from warrener_runtime.bus.rabbit.publisher import Publisher
from warrener_runtime.bus.rabbit.settling import AckPlan

_PREFETCH = 100  # more than one, because a ping that came too late stays unacknowledged until the next one


@dataclass(frozen=True, slots=True)
class _Ping:
    """Straight to our own queue, through the nameless exchange."""

    routing_key: str
    message_id: str
    exchange: str = ""
    body: bytes = b"ping"
    content_type: str = "text/plain"
    type: str = "ping"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    persistent: bool = False
    mandatory: bool = True


class Loopback:
    """An exclusive queue on the consuming connection, fed by the publishing one; kept between pings."""

    def __init__(self, link: Link, publisher: Publisher) -> None:
        self._link = link
        self._publisher = publisher
        self._queue = f"warrener.ping.{uuid4().hex}"
        self._channel: ConsumeChannel | None = None
        self._expected: dict[str, asyncio.Future[int]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def ping(self, seconds: float) -> None:
        """Raises BusUnreachable where it did not come back in time."""
        try:
            async with asyncio.timeout(seconds), self._one_at_a_time:
                while not await self._pinged(seconds):
                    pass  # the connection broke on the way; the next try waits for another one
        except (LinkLost, TimeoutError) as error:
            raise BusUnreachable(
                f"expected a message to the broker and back within {seconds} s, got nothing; look whether the"
                " broker runs, has a memory or disk alarm, or cannot be reached from here"
            ) from error

    async def _pinged(self, seconds: float) -> bool:
        try:
            await self._ping(seconds)
        except LinkLost:
            if self._link.closed:
                raise
            return False
        return True

    async def _ping(self, seconds: float) -> None:
        channel = await self._listen()
        ping = _Ping(self._queue, uuid4().hex)
        heard = self._expected[ping.message_id] = asyncio.get_running_loop().create_future()
        try:
            [fate] = await self._publisher.publish([ping], seconds)
            if fate is not Fate.CONFIRMED:
                raise LinkLost(f"the ping was {fate}")
            tag = await unless_ended(channel, _result(heard))
        finally:
            del self._expected[ping.message_id]
        with broker_faults():
            await write_acks(channel, AckPlan(tag, []))

    async def _listen(self) -> ConsumeChannel:
        connection = await self._link.connected()
        if self._channel is not None and not self._channel.is_closed and self._channel.consumers:
            return self._channel
        channel = await open_channel(connection, ConsumeChannel, arrived=self._arrived)
        declared = channel.queue_declare(self._queue, exclusive=True, timeout=RPC_SECONDS)
        await unless_ended(connection, declared)
        await unless_ended(connection, channel.consume(self._queue, prefetch=_PREFETCH))
        self._channel = channel
        return channel

    def _arrived(self, message: DeliveredMessage) -> None:
        heard = self._expected.get(message.header.properties.message_id or "")
        if heard is not None and not heard.done():
            heard.set_result(message.delivery_tag or 0)


async def _result(heard: "asyncio.Future[int]") -> int:
    return await heard

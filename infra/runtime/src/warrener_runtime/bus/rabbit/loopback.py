"""The honest ping: a message out by one connection and back by the other."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from warrener_runtime.bus.port import BindingSpec, BusUnreachable, Delivery, Fate, TopologyMismatch
from warrener_runtime.bus.rabbit.link import Link
from warrener_runtime.bus.rabbit.publisher import Publisher
from warrener_runtime.bus.rabbit.settling import AckPlan
from warrener_runtime.bus.rabbit.wire import Consuming, LinkLost, Refused

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


@dataclass(frozen=True, slots=True)
class _Queue:
    """It goes with its connection."""

    name: str
    bindings: Sequence[BindingSpec] = ()
    arguments: dict[str, str | int] = field(default_factory=dict[str, str | int])
    exclusive: bool = True


class Loopback:
    """An exclusive queue on the consuming connection, fed by the publishing one; kept between pings."""

    def __init__(self, link: Link, publisher: Publisher, namespace: str) -> None:
        self._link = link
        self._publisher = publisher
        self._queue = _Queue(f"{namespace}.ping.{uuid4().hex}")
        self._ear = _Ear()
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
        except (LinkLost, Refused, TopologyMismatch) as error:
            if self._link.closed:
                raise LinkLost(str(error)) from error
            return False
        return True

    async def _ping(self, seconds: float) -> None:
        channel = await self._listen()
        ping = _Ping(self._queue.name, uuid4().hex)
        heard = self._ear.expect(ping.message_id)
        [fate] = await self._publisher.publish([ping], seconds)
        if fate is not Fate.CONFIRMED:
            raise LinkLost(f"the ping was {fate}")
        tag = await heard
        await channel.ack(AckPlan(tag, []))

    async def _listen(self) -> Consuming:
        wire = await self._link.connected()
        if self._ear.channel is not None and self._ear.channel.live:
            return self._ear.channel
        await wire.declare((), [self._queue])
        self._ear = _Ear()
        return await wire.consuming(self._queue.name, _PREFETCH, self._ear)


class _Ear:
    """Hears pings come back by one channel."""

    epoch = 0

    def __init__(self) -> None:
        self.channel: Consuming | None = None
        self._expected: tuple[str, asyncio.Future[int]] | None = None

    def expect(self, message_id: str) -> "asyncio.Future[int]":
        """The tag of the delivery that brings it back. Its waiter hears LinkLost when the channel goes."""
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._expected = message_id, heard
        return heard

    def opened(self, channel: Consuming) -> None:
        """This channel brings them."""
        self.channel = channel

    def arrived(self, deliveries: Sequence[Delivery]) -> None:
        """One that came too late is passed over."""
        for delivery in deliveries:
            if self._expected is not None and delivery.message_id == self._expected[0]:
                heard = self._expected[1]
                if not heard.done():
                    heard.set_result(delivery.tag)

    def gone(self) -> None:
        """Nothing will come back by this channel."""
        if self._expected is not None and not (heard := self._expected[1]).done():
            heard.set_exception(LinkLost("the channel that brings pings back is gone"))
            heard.exception()  # nobody may be waiting for it yet

"""Publishing in batches with one wait for all confirms."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

import aiormq

from warrener_runtime.bus.port import Fate, Outgoing
from warrener_runtime.bus.rabbit.connection import Connection, close_quietly, open_channel
from warrener_runtime.bus.rabbit.exchanges import KnownExchanges
from warrener_runtime.bus.rabbit.faults import LinkLost, broker_faults
from warrener_runtime.bus.rabbit.frames import why_ended
from warrener_runtime.bus.rabbit.link import Link
from warrener_runtime.bus.rabbit.publish_channel import Numbered, PublishChannel, Round
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)


class Publisher:
    """Publishes on a channel of its own, which it opens again after every loss."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._exchanges = KnownExchanges()
        self._channel: PublishChannel | None = None
        self._opening = asyncio.Lock()
        self._in_flight: dict[str, asyncio.Future[None]] = {}

    async def prepare(self, _: Connection) -> None:
        """A new connection: nothing that was known of the old one holds."""
        self._exchanges.forget_all()

    async def publish(self, messages: Sequence[Outgoing], seconds: float) -> list[Fate]:
        """Publish all; what is not certain within `seconds` is UNKNOWN. The broker never makes it raise."""
        fates = [Fate.UNKNOWN] * len(messages)
        with contextlib.suppress(TimeoutError, LinkLost):
            async with asyncio.timeout(seconds):
                for batch in _rounds(messages):
                    await self._publish(batch, fates)
        return list(fates)  # a confirm that comes too late is written into the other one

    async def _publish(self, batch: Sequence[Numbered], fates: list[Fate]) -> None:
        ids = [message.message_id for _, message in batch]
        await self._none_in_flight(ids)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._in_flight.update(dict.fromkeys(ids, over))
        try:
            await self._send(batch, fates)
        finally:
            for message_id in ids:
                del self._in_flight[message_id]
            over.set_result(None)

    async def _none_in_flight(self, ids: Sequence[str]) -> None:
        """A returned message is told by its id alone, so two with one id never are under way together."""
        while busy := {self._in_flight[one] for one in ids if one in self._in_flight}:
            await asyncio.wait(busy)

    async def _send(self, batch: Sequence[Numbered], fates: list[Fate]) -> None:
        connection = await self._unblocked()
        missing = await self._exchanges.missing({message.exchange for _, message in batch}, connection)
        for place, message in batch:
            if message.exchange in missing:
                fates[place] = Fate.UNROUTABLE
        routable = [numbered for numbered in batch if numbered.message.exchange not in missing]
        if routable:
            await self._confirmed(routable, fates)

    async def _confirmed(self, batch: Sequence[Numbered], fates: list[Fate]) -> None:
        channel = await self._open_channel()
        sent = Round(fates, len(batch))
        with broker_faults():
            await channel.send(batch, sent)
        await sent.over
        if channel.is_closed:
            self._exchanges.forget(*{message.exchange for _, message in batch})
            _say_why(channel)

    async def _unblocked(self) -> Connection:
        """The connection, once the broker reads: what is written during an alarm comes out as repeats."""
        connection = await self._link.connected()
        with broker_faults():
            await connection.ready()
        return connection

    async def _open_channel(self) -> PublishChannel:
        async with self._opening:
            connection = await self._link.connected()
            if self._channel is None or self._channel.is_closed or self._channel.connection is not connection:
                if self._channel is not None:
                    await close_quietly(self._channel)
                self._channel = await open_channel(connection, PublishChannel)
            return self._channel


def _say_why(channel: PublishChannel) -> None:
    error = why_ended(channel)
    if isinstance(error, aiormq.AMQPChannelError):
        _log.warning(
            "The broker closed the publishing channel; what was in flight is uncertain."
            " Look at the reason: a missing exchange, or a permission.",
            action="bus.publish_channel_closed",
            error=str(error),
        )


def _rounds(messages: Sequence[Outgoing]) -> Iterator[list[Numbered]]:
    """Batches in which every message id is unique: a repeat goes in a later one."""
    waiting = [Numbered(place, message) for place, message in enumerate(messages)]
    while waiting:
        batch: dict[str, Numbered] = {}
        later: list[Numbered] = []
        for numbered in waiting:
            if numbered.message.message_id in batch:
                later.append(numbered)
            else:
                batch[numbered.message.message_id] = numbered
        yield list(batch.values())
        waiting = later

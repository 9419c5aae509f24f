"""Publishing in batches with one wait for all confirms."""

import asyncio
import contextlib
from collections.abc import Sequence

from warrener_runtime.bus.port import Fate, Outgoing
from warrener_runtime.bus.rabbit.exchanges import KnownExchanges
from warrener_runtime.bus.rabbit.link import Link
from warrener_runtime.bus.rabbit.rounds import Round
from warrener_runtime.bus.rabbit.wire import LinkLost, Numbered, Publishing, Wire
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)


class Publisher:
    """Publishes on a channel of its own, which it opens again after every loss."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._exchanges = KnownExchanges()
        self._channel: Publishing | None = None
        self._wire: Wire | None = None
        self._opening = asyncio.Lock()

    async def prepare(self, _: Wire) -> None:
        """A new connection: nothing that was known of the old one holds."""
        self._exchanges.forget_all()

    async def publish(self, messages: Sequence[Outgoing], seconds: float) -> list[Fate]:
        """Publish all; what is not certain within `seconds` is UNKNOWN. The broker never makes it raise."""
        fates = [Fate.UNKNOWN] * len(messages)
        if messages:
            with contextlib.suppress(TimeoutError, LinkLost):
                async with asyncio.timeout(seconds):
                    await self._publish(messages, fates)
        return list(fates)  # a confirm that comes too late is written into the other one

    async def _publish(self, messages: Sequence[Outgoing], fates: list[Fate]) -> None:
        wire = await self._link.connected()
        await wire.unblocked()  # what is written during an alarm comes out as repeats
        batch = [Numbered(place, message) for place, message in enumerate(messages)]
        exchanges = {message.exchange for message in messages}
        if missing := await self._exchanges.missing(exchanges, wire):
            for place, message in batch:
                if message.exchange in missing:
                    fates[place] = Fate.UNROUTABLE
            batch = [numbered for numbered in batch if numbered.message.exchange not in missing]
        if batch:
            await self._confirmed(batch, fates, exchanges)

    async def _confirmed(self, batch: Sequence[Numbered], fates: list[Fate], exchanges: set[str]) -> None:
        channel = await self._open_channel()
        try:
            await channel.send(batch, Round(fates, len(batch)))
        finally:
            if channel.closed:
                self._exchanges.forget(*exchanges)
                _say_why(channel)

    async def _open_channel(self) -> Publishing:
        async with self._opening:
            wire = await self._link.connected()
            if self._channel is None or self._channel.closed or self._wire is not wire:
                if self._channel is not None:
                    await self._channel.close()
                self._channel = await wire.publishing()
                self._wire = wire
            return self._channel


def _say_why(channel: Publishing) -> None:
    if (refusal := channel.refusal) is not None:
        _log.warning(
            "The broker closed the publishing channel; what was in flight is uncertain."
            " Look at the reason: a missing exchange, or a permission.",
            action="bus.publish_channel_closed",
            error=refusal,
        )

"""Publishing on a channel of aiormq's."""

import asyncio
from collections.abc import Iterator, Sequence

import aiormq

from warrener_runtime.bus.rabbitmq.aiormq.connection import close_quietly
from warrener_runtime.bus.rabbitmq.aiormq.error_translation import translate_errors
from warrener_runtime.bus.rabbitmq.aiormq.frames import closing_error
from warrener_runtime.bus.rabbitmq.aiormq.publish_channel import RawPublishChannel
from warrener_runtime.bus.rabbitmq.client import NumberedMessage, PublishBatch
from warrener_runtime.bus.types import PublishResult


class AiormqPublisherChannel:
    """A channel that identifies a returned message by its id alone: two with one id are never under way
    together."""

    def __init__(self, channel: RawPublishChannel) -> None:
        self._channel = channel
        self._in_flight: dict[str, asyncio.Future[None]] = {}

    @property
    def closed(self) -> bool:
        """True if the channel can no longer be used."""
        return self._channel.is_closed

    @property
    def refusal(self) -> str | None:
        """The broker's reason for closing the channel."""
        error = closing_error(self._channel)
        return str(error) if isinstance(error, aiormq.AMQPChannelError) else None

    async def send(self, batch: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        """Send all; return when each has a result."""
        for part in _without_twins(batch):
            await self._send(part, sent)

    async def close(self) -> None:
        """Give it up."""
        await close_quietly(self._channel)

    async def _send(self, part: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        ids = [message.message_id for _, message in part]
        while busy := {self._in_flight[one] for one in ids if one in self._in_flight}:
            await asyncio.wait(busy)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._in_flight.update(dict.fromkeys(ids, done))
        part_sent = _Part(sent, len(part))
        try:
            with translate_errors():
                await self._channel.send(part, part_sent)
            await part_sent.done
        finally:
            for message_id in ids:
                del self._in_flight[message_id]
            done.set_result(None)


class _Part(PublishBatch):
    """Some messages of a round."""

    __slots__ = ("_whole",)

    def __init__(self, whole: PublishBatch, size: int) -> None:
        super().__init__([], size)
        self._whole = whole

    def resolve(self, index: int, result: PublishResult) -> None:
        """Set the result of one message of the batch."""
        self._whole.resolve(index, result)
        self.count_down()


def _without_twins(batch: Sequence[NumberedMessage]) -> Iterator[list[NumberedMessage]]:
    """Parts in which every message id is unique: a repeat goes in a later one."""
    waiting: Sequence[NumberedMessage] = batch
    while waiting:
        part: dict[str, NumberedMessage] = {}
        later: list[NumberedMessage] = []
        for numbered in waiting:
            if numbered.message.message_id in part:
                later.append(numbered)
            else:
                part[numbered.message.message_id] = numbered
        yield list(part.values())
        waiting = later

"""A channel that publishes batches: one write for all of them, confirms resolved by range."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

import aiormq
from pamqp import commands as spec
from pamqp.header import ContentHeader

from warrener_runtime.bus.rabbitmq.aiormq.frames import (
    AnyFrame,
    closing_error,
    on_closed,
    run_while_open,
    write,
)
from warrener_runtime.bus.rabbitmq.client import NumberedMessage, PublishBatch
from warrener_runtime.bus.types import OutgoingMessage, PublishResult


class _Sent(NamedTuple):
    publish_batch: PublishBatch
    number: int
    message_id: str
    exchange: str


class RawPublishChannel(aiormq.Channel):
    """Keeps what is in flight itself, because aiormq has a future and a socket write for each message."""

    def __init__(self, connector: aiormq.abc.AbstractConnection, number: int) -> None:
        super().__init__(connector, number, publisher_confirms=True)
        self._in_flight: dict[int, _Sent] = {}  # by delivery tag, ascending
        self._returnable: dict[str, int] = {}  # message id -> delivery tag
        on_closed(self, self._resolve_pending)

    async def send(self, messages: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        """Write all at once; their results arrive in `sent`. Message ids must differ among all in flight."""
        await run_while_open(self, self._send(messages, sent))

    async def _send(self, messages: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        frames = [frame for _, message in messages for frame in self._frames(message)]
        async with self.lock:
            await write(self, frames, drained=False)
            # No await between the write and this: the broker numbers what it reads.
            for index, message in messages:
                self.delivery_tag += 1
                self._in_flight[self.delivery_tag] = _Sent(sent, index, message.message_id, message.exchange)
                self._returnable[message.message_id] = self.delivery_tag
            if self.is_closed:
                self._resolve_pending(closing_error(self))

    def _frames(self, message: OutgoingMessage) -> list[AnyFrame]:
        properties = spec.Basic.Properties(
            content_type=message.content_type,
            headers=dict(message.headers) or None,
            delivery_mode=2 if message.persistent else 1,
            message_id=message.message_id,
            message_type=message.type,
        )
        return [
            spec.Basic.Publish(
                exchange=message.exchange, routing_key=message.routing_key, mandatory=message.mandatory
            ),
            ContentHeader(properties=properties, body_size=len(message.body)),
            *self._split_body(message.body),
        ]

    # The three below replace hooks of aiormq's reader (pinned in pyproject.toml, checked by a test).

    async def _on_confirm_frame(self, frame: aiormq.abc.ConfirmationFrameType) -> None:
        assert not isinstance(frame, spec.Basic.Reject)
        result = PublishResult.CONFIRMED if isinstance(frame, spec.Basic.Ack) else PublishResult.REFUSED
        last = frame.delivery_tag or 0
        if frame.multiple:
            self._resolve(list(takewhile(lambda tag: tag <= last, self._in_flight)), result)
        elif last in self._in_flight:
            self._resolve([last], result)

    async def _on_return_frame(self, frame: spec.Basic.Return) -> None:
        """An unroutable message comes back before its confirm, which then says nothing any more."""
        header = await self._get_frame()
        assert isinstance(header, ContentHeader)
        returned = await self._read_content(frame, header)
        tag = self._returnable.get(returned.header.properties.message_id or "")
        if tag is not None:
            self._resolve([tag], PublishResult.UNROUTABLE)

    def _resolve_pending(self, error: BaseException | None) -> None:
        """The channel is gone. What went to an exchange that is missing is nowhere; the rest is uncertain."""
        reason_text = str(error) if isinstance(error, aiormq.ChannelNotFoundEntity) else ""
        for tag, sent in list(self._in_flight.items()):
            missing = f"no exchange '{sent.exchange}'" in reason_text
            self._resolve([tag], PublishResult.UNROUTABLE if missing else PublishResult.UNKNOWN)

    def _resolve(self, tags: Iterable[int], result: PublishResult) -> None:
        for tag in tags:
            sent = self._in_flight.pop(tag)
            if self._returnable.get(sent.message_id) == tag:
                del self._returnable[sent.message_id]
            sent.publish_batch.resolve(sent.number, result)

"""A channel that publishes batches: one write for all of them, confirms resolved by range."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

import aiormq
from pamqp import commands as spec
from pamqp.header import ContentHeader

from warrener_runtime.bus.port import Fate, Outgoing
from warrener_runtime.bus.rabbit.frames import AnyFrame, when_ended, while_open, why_ended, write
from warrener_runtime.bus.rabbit.rounds import Round
from warrener_runtime.bus.rabbit.wire import Numbered


class _Sent(NamedTuple):
    round: Round
    place: int
    message_id: str
    exchange: str


class PublishChannel(aiormq.Channel):
    """Keeps what is in flight itself, because aiormq has a future and a socket write for each message."""

    def __init__(self, connector: aiormq.abc.AbstractConnection, number: int) -> None:
        super().__init__(connector, number, publisher_confirms=True)
        self._in_flight: dict[int, _Sent] = {}  # by delivery tag, ascending
        self._returnable: dict[str, int] = {}  # message id -> delivery tag
        when_ended(self, self._decide_the_rest)

    async def send(self, messages: Sequence[Numbered], sent: Round) -> None:
        """Write all in one go; their fates arrive in `sent`. Message ids must differ among all in flight."""
        await while_open(self, self._send(messages, sent))

    async def _send(self, messages: Sequence[Numbered], sent: Round) -> None:
        frames = [frame for _, message in messages for frame in self._frames(message)]
        async with self.lock:
            await write(self, frames, drained=False)
            # No await between the write and this: the broker numbers what it reads.
            for place, message in messages:
                self.delivery_tag += 1
                self._in_flight[self.delivery_tag] = _Sent(sent, place, message.message_id, message.exchange)
                self._returnable[message.message_id] = self.delivery_tag
            if self.is_closed:
                self._decide_the_rest(why_ended(self))

    def _frames(self, message: Outgoing) -> list[AnyFrame]:
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
        fate = Fate.CONFIRMED if isinstance(frame, spec.Basic.Ack) else Fate.REFUSED
        last = frame.delivery_tag or 0
        if frame.multiple:
            self._decide(list(takewhile(lambda tag: tag <= last, self._in_flight)), fate)
        elif last in self._in_flight:
            self._decide([last], fate)

    async def _on_return_frame(self, frame: spec.Basic.Return) -> None:
        """An unroutable message comes back before its confirm, which then says nothing any more."""
        header = await self._get_frame()
        assert isinstance(header, ContentHeader)
        returned = await self._read_content(frame, header)
        tag = self._returnable.get(returned.header.properties.message_id or "")
        if tag is not None:
            self._decide([tag], Fate.UNROUTABLE)

    def _decide_the_rest(self, error: BaseException | None) -> None:
        """The channel is gone. What went to an exchange that is missing is nowhere; the rest is uncertain."""
        said = str(error) if isinstance(error, aiormq.ChannelNotFoundEntity) else ""
        for tag, sent in list(self._in_flight.items()):
            missing = f"no exchange '{sent.exchange}'" in said
            self._decide([tag], Fate.UNROUTABLE if missing else Fate.UNKNOWN)

    def _decide(self, tags: Iterable[int], fate: Fate) -> None:
        for tag in tags:
            sent = self._in_flight.pop(tag)
            if self._returnable.get(sent.message_id) == tag:
                del self._returnable[sent.message_id]
            sent.round.decide(sent.place, fate)

"""Who listens to a channel in these tests."""

import asyncio
from collections.abc import Callable

from warrener_amqp import AmqpError, Channel, ChannelListener, Confirmed, Delivered, PublishReturned, Session


class RecordingListener(ChannelListener):
    """Stores a channel's events, and wakes the tasks that wait for one."""

    def __init__(self) -> None:
        self.deliveries: list[Delivered] = []
        self.confirms: list[Confirmed] = []
        self.returns: list[PublishReturned] = []
        self.cancelled: list[str] = []
        self.closed: list[AmqpError] = []
        self._changed = asyncio.Event()

    def on_delivery(self, delivery: Delivered) -> None:
        self.deliveries.append(delivery)
        self._changed.set()

    def on_confirm(self, confirm: Confirmed) -> None:
        self.confirms.append(confirm)
        self._changed.set()

    def on_return(self, returned: PublishReturned) -> None:
        self.returns.append(returned)
        self._changed.set()

    def on_cancel(self, consumer: str) -> None:
        self.cancelled.append(consumer)
        self._changed.set()

    def on_closed(self, reason: AmqpError) -> None:
        self.closed.append(reason)
        self._changed.set()

    @property
    def confirmed(self) -> int:
        """The highest number that the broker has confirmed."""
        return max((confirm.tag for confirm in self.confirms if confirm.positive), default=0)

    async def until(self, fact: Callable[[], object], *, within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            while not fact():
                self._changed.clear()
                await self._changed.wait()


def publish(session: Session, channel: Channel, key: str, body: bytes = b"x", message_id: str = "m") -> int:
    """A mandatory message by the nameless exchange; sent at the end of the loop turn."""
    number = session.core.publish(
        channel.number,
        "",
        key,
        body,
        content_type="text/plain",
        headers={"traceparent": "00"},
        message_id=message_id,
        type="t",
        persistent=True,
        mandatory=True,
    )
    session.transport.flush_soon()
    return number

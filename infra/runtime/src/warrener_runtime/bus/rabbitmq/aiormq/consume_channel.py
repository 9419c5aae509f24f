"""A channel that hands deliveries over as they are read, without a task for each."""

from collections.abc import Callable

import aiormq
from aiormq.abc import DeliveredMessage
from pamqp import commands as spec
from pamqp.header import ContentHeader

from warrener_runtime.bus.rabbitmq.aiormq.frames import run_while_open, write
from warrener_runtime.bus.rabbitmq.client import AckPlan

Arrived = Callable[[DeliveredMessage], None]


class RawConsumeChannel(aiormq.Channel):
    """A channel with one consumer, whose deliveries go straight to `arrived`."""

    def __init__(self, connector: aiormq.abc.AbstractConnection, number: int, *, arrived: Arrived) -> None:
        super().__init__(connector, number, publisher_confirms=False)
        self._arrived = arrived

    async def consume(self, queue: str, *, prefetch: int) -> None:
        """Begin. What aiormq would call in a task per message is the same, should the hook below be gone."""
        await self.basic_qos(prefetch_count=prefetch)
        await self.basic_consume(queue, self._arrived_in_task)

    async def _arrived_in_task(self, message: DeliveredMessage) -> None:
        self._arrived(message)

    async def _on_deliver_frame(self, frame: spec.Basic.Deliver) -> None:
        header = await self._get_frame()
        assert isinstance(header, ContentHeader)
        self._arrived(await self._read_content(frame, header))


async def write_acks(channel: aiormq.abc.AbstractChannel, plan: AckPlan) -> None:
    """Acknowledge, in one write; returns when it has left this process."""
    frames = [spec.Basic.Ack(delivery_tag=tag) for tag in plan.individual]
    if plan.up_to is not None:
        frames.insert(0, spec.Basic.Ack(delivery_tag=plan.up_to, multiple=True))
    await _write(channel, frames)


async def write_rejects(channel: aiormq.abc.AbstractChannel, tags: list[int], *, requeue: bool) -> None:
    """Reject, in one write. Not nack: RabbitMQ 4.3 does not count it, and poison would come back without
    end."""
    await _write(channel, [spec.Basic.Reject(delivery_tag=tag, requeue=requeue) for tag in tags])


async def _write(
    channel: aiormq.abc.AbstractChannel, frames: list[spec.Basic.Ack] | list[spec.Basic.Reject]
) -> None:
    if channel.is_closed:
        raise aiormq.ChannelInvalidStateError("closed before the acknowledgement was written")
    await run_while_open(channel, write(channel, frames, drained=True))

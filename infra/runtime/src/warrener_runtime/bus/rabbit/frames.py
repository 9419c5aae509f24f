"""What aiormq leaves half typed: how a connection or channel ends, and writing frames to it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import aiormq
from aiormq.abc import ChannelFrame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

AnyFrame: TypeAlias = Frame | ContentHeader | ContentBody
Resource: TypeAlias = aiormq.abc.AbstractConnection | aiormq.abc.AbstractChannel


async def ended(resource: Resource) -> None:
    """Wait until it is closed, by whomever and for whatever reason."""
    await asyncio.wait({_closing(resource)})


def when_ended(
    resource: Resource,
    tell: Callable[[BaseException | None], None],
) -> None:
    """Call `tell` once it is closed, with the reason; soon, if it is closed already."""

    def told(closing: asyncio.Future[None]) -> None:
        tell(None if closing.cancelled() else closing.exception())

    _closing(resource).add_done_callback(told)


def why_ended(resource: Resource) -> BaseException | None:
    """The reason, if it is closed and there is one."""
    closing = _closing(resource)
    return closing.exception() if closing.done() and not closing.cancelled() else None


def _closing(resource: Resource) -> "asyncio.Future[None]":
    return cast("asyncio.Future[None]", resource.closing)  # pyright: ignore[reportUnknownMemberType] - theirs


async def write(channel: aiormq.abc.AbstractChannel, frames: Sequence[AnyFrame], *, drained: bool) -> None:
    """Send frames in one write. With `drained`, return when they have left this process."""
    written: asyncio.Future[None] | None = asyncio.get_running_loop().create_future() if drained else None
    payload = ChannelFrame.marshall(channel.number, frames, written)  # pyright: ignore[reportUnknownMemberType]
    try:
        await channel.connection.write_queue.put(payload)  # pyright: ignore[reportUnknownMemberType]
        if written is not None:
            await written
    finally:
        if written is not None:
            written.cancel()

"""Typed access to aiormq: the end of a connection or channel, and writing frames."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import aiormq
from aiormq.abc import ChannelFrame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from warrener_runtime.bus.rabbitmq.aiormq.error_translation import translate_errors
from warrener_runtime.bus.rabbitmq.client import BrokerConnectionLost

AnyFrame: TypeAlias = Frame | ContentHeader | ContentBody
_CANCEL_INTERVAL = 0.5  # seconds

T = TypeVar("T")
Resource: TypeAlias = aiormq.abc.AbstractConnection | aiormq.abc.AbstractChannel


async def wait_closed(resource: Resource) -> None:
    """Wait until the connection is closed, for any reason."""
    await asyncio.wait({_closing(resource)})


def on_closed(
    resource: Resource,
    callback: Callable[[BaseException | None], None],
) -> None:
    """Call `callback` once it is closed, with the reason; soon, if it is closed already."""

    def call_back(closing: asyncio.Future[None]) -> None:
        callback(None if closing.cancelled() else closing.exception())

    _closing(resource).add_done_callback(call_back)


def closing_error(resource: Resource) -> BaseException | None:
    """The reason, if it is closed and there is one."""
    closing = _closing(resource)
    return closing.exception() if closing.done() and not closing.cancelled() else None


def _closing(resource: Resource) -> "asyncio.Future[None]":
    return cast("asyncio.Future[None]", resource.closing)  # pyright: ignore[reportUnknownMemberType] - theirs


async def run_unless_closed(resource: Resource, call: Coroutine[Any, Any, T]) -> T:
    """The result of `call`, or BrokerConnectionLost as soon as `resource` has ended.

    aiormq cancels the calls that are pending when a connection ends; but it waits for replies with wait_for,
    which swallows the cancellation on Python 3.11 if the request had just been written. That call would hang.
    """
    task = asyncio.ensure_future(call)
    task.add_done_callback(_retrieve_exception)
    try:
        ending: asyncio.Future[Any] = _closing(resource)
        await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise BrokerConnectionLost("the connection ended while a call was under way")
        with translate_errors():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            asyncio.get_running_loop().call_later(
                _CANCEL_INTERVAL, task.cancel
            )  # the first may be swallowed, too


def _retrieve_exception(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()


async def run_while_open(channel: aiormq.abc.AbstractChannel, work: Coroutine[Any, Any, None]) -> None:
    """Do `work`, or fail when the channel ends: nobody empties the write queue of a dead connection."""
    await channel.create_task(work)  # pyright: ignore[reportUnknownMemberType] - half typed


async def write(channel: aiormq.abc.AbstractChannel, frames: Sequence[AnyFrame], *, drained: bool) -> None:
    """Send frames in one write, within `run_while_open`. With `drained`, return once they have left us."""
    written: asyncio.Future[None] | None = asyncio.get_running_loop().create_future() if drained else None
    payload = ChannelFrame.marshall(channel.number, frames, written)  # pyright: ignore[reportUnknownMemberType]
    try:
        await channel.connection.write_queue.put(payload)  # pyright: ignore[reportUnknownMemberType]
        if written is not None:
            await written
    finally:
        if written is not None:
            written.cancel()

"""The floor: as many messages through one quorum queue, published to and consumed from at once, by the bus's
client and with no logic.

Run as a process, `python -m tools.benchmarks.floor 10000`, that pays for itself alone.
"""

import asyncio
import json
import resource
import sys
import time
from itertools import takewhile

import uvloop
from pamqp import commands
from tools.benchmarks.place import here

from warrener_amqp.address import parse_address
from warrener_amqp.channel import ChannelListener
from warrener_amqp.events import Confirmed, Delivered, PublishReturned
from warrener_amqp.session import Session

SETTINGS = (
    "one quorum queue, persistent messages of 350 bytes as a request has, 2000 publishes outstanding, "
    "prefetch 2000, acknowledged by range, by warrener_amqp in one Python process that does both"
)
_OUTSTANDING, _PREFETCH = 2000, 2000
_QUEUE = "bench.floor"
_BODY = b"x" * 350


class _Silent(ChannelListener):
    """Hears nothing that anybody waits for; a loss ends the measurement."""

    def on_return(self, returned: PublishReturned) -> None:
        raise RuntimeError(f"expected a queue for {returned.routing_key}, got {returned.reason}")

    def on_cancel(self, consumer: str) -> None:
        raise RuntimeError(f"expected to consume to the end, got {consumer} cancelled")


class _Publisher(_Silent):
    """Keeps the window of unconfirmed publishes full."""

    def __init__(self, session: Session, count: int) -> None:
        self._session, self._left = session, count
        self._number = 0
        self._open: dict[int, None] = {}  # tags, ascending
        self.done = asyncio.Event()

    async def begin(self) -> None:
        channel = await self._session.channel(self)
        await channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        self._number = channel.number
        self._fill()

    def on_confirm(self, confirm: Confirmed) -> None:
        assert confirm.positive
        if confirm.multiple:
            for tag in list(takewhile(lambda tag: tag <= confirm.tag, self._open)):
                del self._open[tag]
        else:
            del self._open[confirm.tag]

    def on_read_complete(self) -> None:
        self._fill()
        if not self._open and not self._left:
            self.done.set()

    def _fill(self) -> None:
        room = min(self._left, _OUTSTANDING - len(self._open))
        for _ in range(room):
            tag = self._session.core.publish(
                self._number,
                "",
                _QUEUE,
                _BODY,
                content_type="application/json",
                headers={},
                message_id="floor",
                type="floor",
                persistent=True,
                mandatory=False,
            )
            self._open[tag] = None
        self._left -= room
        self._session.transport.flush_soon()


class _Consumer(_Silent):
    """Acknowledges what came in a loop turn at once."""

    def __init__(self, session: Session, count: int) -> None:
        self._session, self._left = session, count
        self._number = self._last = 0
        self.done = asyncio.Event()

    async def begin(self) -> None:
        channel = await self._session.channel(self)
        self._number = channel.number
        await channel.call(commands.Basic.Qos(0, _PREFETCH), commands.Basic.QosOk)
        await channel.call(commands.Basic.Consume(queue=_QUEUE), commands.Basic.ConsumeOk)

    def on_delivery(self, delivery: Delivered) -> None:
        self._last = delivery.tag
        self._left -= 1

    def on_read_complete(self) -> None:
        self._session.core.ack(self._number, self._last, multiple=True)
        self._session.transport.flush_soon()
        if self._left <= 0:
            self.done.set()


async def run(count: int) -> dict[str, float]:
    """Messages a second through the queue, and into it alone."""
    session = Session(parse_address(here().broker_url).with_name("floor"))
    await session.open()
    setup = await session.channel()
    declare = commands.Queue.Declare(queue=_QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    await setup.call(declare, commands.Queue.DeclareOk)
    published = await _timed(_Publisher(session, count))
    await setup.call(commands.Queue.Purge(queue=_QUEUE), commands.Queue.PurgeOk)
    used = _cpu()
    through = await _timed(_Consumer(session, count), _Publisher(session, count))
    spent = _cpu() - used
    await session.close()
    return {
        "floor": count / through,
        "floor_published": count / published,
        "floor_client_ms": spent / count * 1000,
    }


async def _timed(*parts: _Publisher | _Consumer) -> float:
    began = time.perf_counter()
    for part in parts:
        await part.begin()
    for part in parts:
        await part.done.wait()
    return time.perf_counter() - began


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(int(sys.argv[1])))))

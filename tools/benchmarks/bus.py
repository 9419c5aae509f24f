"""Measure what a message costs by the bus, and by its AMQP client alone.

Run `python tools/benchmarks/bus.py`.

One private RabbitMQ, one quorum queue, persistent messages of 300 bytes with confirms, uvloop, both in turns
within one run; medians of the rounds. µs are processor time per message: of this process (client) and
of the node (broker).
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import psutil
import uvloop
from pamqp import commands

from warrener_amqp.address import parse_address
from warrener_amqp.channel import Channel, ChannelListener
from warrener_amqp.events import Confirmed, Delivered
from warrener_amqp.session import Session
from warrener_contracts.messages import Message
from warrener_contracts.topology import Binding, Exchange, Queue, Topology
from warrener_devservers import PrivateRabbitMQ
from warrener_runtime.bus import PublishResult, open_bus

BODY = b"x" * 300
KIND = "job.requested.v1"
CONTENT = "application/cloudevents+json"
HEADERS = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
BATCH = 500  # messages in one publish
AT_ONCE = 4  # publishes under way: 2000 confirms outstanding
PREFETCH = 2000
QUORUM: dict[str, str | int] = {"x-queue-type": "quorum"}


@dataclass(frozen=True)
class Cost:
    """What one run took, for each message."""

    rate: float
    client: float
    broker: float


class Contestant(Protocol):
    """Something that publishes and consumes."""

    @property
    def name(self) -> str: ...
    async def open(self) -> None: ...
    async def publish(self, count: int) -> None: ...
    async def consume(self, count: int) -> None: ...
    async def close(self) -> None: ...


class ByBus:
    """The Bus port, used as the services use it."""

    name = "Bus"

    def __init__(self, url: str) -> None:
        self._queue = f"bench-{uuid4().hex}"
        self._bus = open_bus(url, name="bench")

    async def open(self) -> None:
        await self._bus.start()
        bound = Queue(self._queue, (Binding("bench", self._queue),), QUORUM)
        await self._bus.declare(Topology((Exchange("bench"),), (bound,)))

    async def publish(self, count: int) -> None:
        numbers = iter(range(count // BATCH))
        await asyncio.gather(*(self._publish_some(numbers) for _ in range(AT_ONCE)))

    async def _publish_some(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            results = await self._bus.publish(self._messages(number), timeout=60)
            assert results == [PublishResult.CONFIRMED] * BATCH

    async def consume(self, count: int) -> None:
        subscription = await self._bus.subscribe(self._queue, prefetch=PREFETCH)
        seen = 0
        async for batch in subscription:
            await subscription.ack(batch)
            seen += len(batch)
            if seen >= count:
                break
        await subscription.stop()

    async def close(self) -> None:
        await self._bus.close()

    def _messages(self, number: int) -> list[Message]:
        return [
            Message(
                exchange="bench",
                routing_key=self._queue,
                body=BODY,
                content_type=CONTENT,
                message_id=f"{number}-{n}",
                type=KIND,
                headers=HEADERS,
            )
            for n in range(BATCH)
        ]


class Raw:
    """The AMQP client, with nothing above it."""

    name = "warrener_amqp alone"

    def __init__(self, url: str) -> None:
        self._queue = f"bench-{uuid4().hex}"
        self._publishing, self._consuming = Session(parse_address(url)), Session(parse_address(url))

    async def open(self) -> None:
        await self._publishing.open()
        await self._consuming.open()
        channel = await self._publishing.channel()
        declare = commands.Queue.Declare(queue=self._queue, durable=True, arguments={**QUORUM})
        await channel.call(declare, commands.Queue.DeclareOk)

    async def publish(self, count: int) -> None:
        confirms, session = _Confirms(), self._publishing
        channel = await session.channel(confirms)
        await channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        for start in range(0, count, BATCH):
            for n in range(start, start + BATCH):
                session.core.publish(
                    channel.number,
                    "",
                    self._queue,
                    BODY,
                    content_type=CONTENT,
                    headers=HEADERS,
                    message_id=f"m-{n}",
                    type=KIND,
                    persistent=True,
                    mandatory=True,
                )
            session.transport.flush_soon()
            await confirms.upto(start + BATCH - BATCH * AT_ONCE)
        await confirms.upto(count)

    async def consume(self, count: int) -> None:
        taker = _Taker(self._consuming, count)
        taker.channel = channel = await self._consuming.channel(taker)
        await channel.call(commands.Basic.Qos(0, PREFETCH), commands.Basic.QosOk)
        await channel.call(commands.Basic.Consume(queue=self._queue), commands.Basic.ConsumeOk)
        await taker.done.wait()
        await channel.close()

    async def close(self) -> None:
        await self._publishing.close()
        await self._consuming.close()


class _Confirms(ChannelListener):
    def __init__(self) -> None:
        self._all_upto = 0
        self._beyond: set[int] = set()
        self._news = asyncio.Event()

    def on_confirm(self, confirm: Confirmed) -> None:
        if confirm.multiple:
            self._all_upto = max(self._all_upto, confirm.tag)
        else:
            self._beyond.add(confirm.tag)
        while self._all_upto + 1 in self._beyond:
            self._all_upto += 1
        self._news.set()

    async def upto(self, number: int) -> None:
        """Wait until all up to this number are confirmed."""
        while self._all_upto < number:
            self._news.clear()
            await self._news.wait()


class _Taker(ChannelListener):
    channel: Channel

    def __init__(self, session: Session, count: int) -> None:
        self._session = session
        self._left = count
        self._last = 0
        self.done = asyncio.Event()

    def on_delivery(self, delivery: Delivered) -> None:
        self._left -= 1
        self._last = delivery.tag

    def on_read_complete(self) -> None:
        self._session.core.ack(self.channel.number, self._last, multiple=True)
        self._session.transport.flush_soon()
        if not self._left:
            self.done.set()


async def measured(node: psutil.Process, count: int, work: Callable[[], Awaitable[object]]) -> Cost:
    """The cost of `work`, which moves `count` messages."""
    broker, client, began = _busy(node), time.process_time(), time.perf_counter()
    await work()
    seconds, client = time.perf_counter() - began, time.process_time() - client
    return Cost(count / seconds, client / count * 1e6, (_busy(node) - broker) / count * 1e6)


def _busy(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def both(one: Contestant, count: int) -> None:
    """Publish and consume at once."""
    await asyncio.gather(one.publish(count), one.consume(count))


Costs = dict[tuple[str, str], list[Cost]]


async def one_round(url: str, node: psutil.Process, count: int, costs: Costs) -> None:
    """Measure both in turns."""
    contestants: list[Contestant] = [Raw(url), ByBus(url)]
    for one in contestants:
        await one.open()
        works: dict[str, Callable[[], Awaitable[None]]] = {
            "publish": partial(one.publish, count),
            "consume": partial(one.consume, count),
            "both at once": partial(both, one, count),
        }
        for what, work in works.items():
            costs.setdefault((what, one.name), []).append(await measured(node, count, work))
        await one.close()


def table(costs: Costs) -> str:
    """Medians, as Markdown."""
    lines = ["| | | msgs/s | client µs | broker µs |", "|---|---|---|---|---|"]
    for (what, name), runs in sorted(costs.items(), reverse=True):
        rate = statistics.median(run.rate for run in runs)
        client = statistics.median(run.client for run in runs)
        broker = statistics.median(run.broker for run in runs)
        lines.append(f"| {what} | {name} | {rate:,.0f} | {client:.1f} | {broker:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    count = options.messages // BATCH * BATCH
    costs: Costs = {}
    with tempfile.TemporaryDirectory() as folder:
        node = PrivateRabbitMQ(Path(folder) / "node")
        node.start()
        try:
            process = psutil.Process(int((Path(folder) / "node" / "pid").read_text()))
            for _ in range(options.rounds):
                uvloop.run(one_round(node.url, process, count, costs))
        finally:
            node.kill()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    sys.stdout.write(f"{options.rounds} rounds of {count} messages, load {load}\n\n{table(costs)}\n")


if __name__ == "__main__":
    main()

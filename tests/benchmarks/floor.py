"""The floor: as many messages through one quorum queue, published to and consumed from at once, and no logic.

Run as a process, `python -m tests.benchmarks.floor 10000`, so that it pays for itself alone.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence

import uvloop
from tests.benchmarks.place import here

from warrener_contracts.letters import Letter
from warrener_contracts.topology import Queue, Topology
from warrener_runtime.bus import Bus, open_bus
from warrener_runtime.bus.port import Fate

SETTINGS = (
    "one quorum queue, persistent messages of the job's size, 2000 publishes outstanding, prefetch 2000, "
    "acknowledged by range, one Python process that does both"
)
_AT_ONCE, _ON_THE_WAY, _PREFETCH = 500, 4, 2000
_QUEUE = Queue("bench.floor", (), arguments={"x-queue-type": "quorum"})
_SIZE = 350  # bytes: what a request of a no-op job has


async def _publish(bus: Bus, count: int) -> None:
    left = _portions(count)

    async def one_after_another() -> None:
        for portion in left:
            fates = await bus.publish(portion)
            assert all(fate is Fate.CONFIRMED for fate in fates), set(fates)

    await asyncio.gather(*(one_after_another() for _ in range(_ON_THE_WAY)))


async def _consume(bus: Bus, count: int) -> None:
    subscription = await bus.subscribe(_QUEUE.name, prefetch=_PREFETCH)
    async for batch in subscription:
        await subscription.ack(batch)
        count -= len(batch)
        if count <= 0:
            break
    await subscription.stop()


def _portions(count: int) -> Iterator[Sequence[Letter]]:
    body = b"x" * _SIZE
    for first in range(0, count, _AT_ONCE):
        yield [
            Letter("", _QUEUE.name, body, "application/json", str(number), "floor", {})
            for number in range(first, min(count, first + _AT_ONCE))
        ]


async def run(count: int) -> dict[str, float]:
    """Messages a second through the queue, and into it alone."""
    bus = open_bus(here().broker_url, name="floor")
    await bus.start()
    await bus.declare(Topology((), (_QUEUE,)))
    used, began = _cpu(), time.perf_counter()
    await asyncio.gather(_publish(bus, count), _consume(bus, count))
    through, spent = time.perf_counter() - began, _cpu() - used
    began = time.perf_counter()
    await _publish(bus, count)
    published = time.perf_counter() - began
    await bus.close()
    return {
        "floor": count / through,
        "floor_published": count / published,
        "floor_client_ms": spent / count * 1000,
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(int(sys.argv[1])))))

"""The process that asks: `python -m tools.benchmarks.driver celery`. Told what to do line by line, as JSON.

It is a process of its own so that its processor time is known, and no system's modules meet another's.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvloop
from tools.benchmarks.place import here
from tools.benchmarks.systems.catalogue import PYTHON_SYSTEMS
from tools.benchmarks.systems.port import Requester

_TICK = 0.02  # seconds between two portions of a steady load
_WITHIN = 60.0
_WARM = 3  # samples that are not counted


async def serve(requester: Requester, answer: Callable[[Any], None]) -> None:
    """Carry out commands until there are no more."""
    stamps: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Stamps(stamps), local_addr=("127.0.0.1", here().stamp_port)
    )
    answer({"ready": True})
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        match command["do"]:
            case "ask":
                answer(await _request(requester, command["count"], command["payload"]))
            case "latency":
                answer(await _under_load(requester, stamps, command["samples"], command["rate"]))
            case other:
                raise ValueError(f"expected ask or latency, got {other}")
    transport.close()


class _Stamps(asyncio.DatagramProtocol):
    def __init__(self, stamps: "asyncio.Queue[int]") -> None:
        self._stamps = stamps

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self._stamps.put_nowait(int(data))


async def _request(requester: Requester, count: int, size: int) -> dict[str, float]:
    used, began = _cpu(), time.perf_counter()
    await requester.request(count, "x" * size)
    return {"seconds": time.perf_counter() - began, "cpu": _cpu() - used}


async def _under_load(
    requester: Requester, stamps: "asyncio.Queue[int]", samples: int, rate: float
) -> dict[str, list[float]]:
    load = asyncio.create_task(_load(requester, rate)) if rate else None
    try:
        return await _latency(requester, stamps, samples)
    finally:
        if load:
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load


async def _latency(
    requester: Requester, stamps: "asyncio.Queue[int]", samples: int
) -> dict[str, list[float]]:
    """One job after another, in milliseconds: asked until it began, asked until its result was seen."""
    started: list[float] = []
    seen: list[float] = []
    for number in range(samples + _WARM):
        requested = time.time_ns()
        await asyncio.wait_for(requester.request_and_wait(), _WITHIN)
        done = time.time_ns()
        began = await asyncio.wait_for(stamps.get(), _WITHIN)
        if number >= _WARM:
            started.append((began - requested) / 1e6)
            seen.append((done - requested) / 1e6)
    return {"started": started, "seen": seen}


async def _load(requester: Requester, rate: float) -> None:
    """`rate` jobs a second, evenly."""
    began, requested = time.perf_counter(), 0
    while True:
        due = int((time.perf_counter() - began) * rate) - requested
        if due > 0:
            await requester.request(due, "x" * 100)
            requested += due
        await asyncio.sleep(_TICK)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Keep standard output for the answers: libraries like to talk."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    system = PYTHON_SYSTEMS[sys.argv[1]]

    async def run() -> None:
        async with system.requester(here()) as requester:
            await serve(requester, lambda answered: print(json.dumps(answered), file=answers))

    uvloop.run(run())


if __name__ == "__main__":
    main()

"""Processes that a test, or a handler of it, has started: what they write, and their ends."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic

import psutil
from services.agent.tests.stage import WAIT


async def until(fact: Callable[[], bool]) -> None:
    """Wait until `fact` is true, however long the event loop stands still."""

    def look() -> None:
        deadline, pause = monotonic() + WAIT, threading.Event()
        while not fact():
            assert monotonic() < deadline
            pause.wait(0.02)

    await asyncio.to_thread(look)


async def until_written(path: Path, lines: int) -> None:
    await until(lambda: path.exists() and path.read_text().count("\n") >= lines)


def runs(pid: int) -> bool:
    """True if it runs; a zombie, which only waits for its parent, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until_gone(pids: Iterable[int]) -> None:
    left = set(pids)
    await until(lambda: not any(map(runs, left)))

"""Processes that a test, or a handler of it, has started: what they write, and their ends."""

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

import psutil
from services.agent.tests.stage import WAIT


async def until_written(path: Path, lines: int) -> None:
    """Wait until so many lines are in the file."""

    def look() -> None:
        deadline, pause = monotonic() + WAIT, threading.Event()
        while not path.exists() or path.read_text().count("\n") < lines:
            assert monotonic() < deadline, f"expected {lines} lines in {path}"
            pause.wait(0.02)

    await asyncio.to_thread(look)


def _runs(pid: int) -> bool:
    """True if it runs; a zombie, which only waits for its parent, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(pids: Iterable[int]) -> bool:
    """True once none of them runs; False if some never end."""
    left = set(pids)

    def look() -> bool:
        deadline, pause = monotonic() + WAIT, threading.Event()
        while any(map(_runs, left)):
            if monotonic() > deadline:
                return False
            pause.wait(0.02)
        return True

    return await asyncio.to_thread(look)

"""The ends of processes that a test, or a handler of it, has started."""

import asyncio
import threading
from collections.abc import Iterable
from time import monotonic

import psutil

WAIT = 60.0


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

"""Ending a task for certain."""

import asyncio
from typing import Any

_CANCEL_INTERVAL = 0.1  # seconds


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel it until it has ended.

    Once is not enough: on Python 3.11, asyncio.wait_for swallows a cancellation that comes in the very turn
    in which what it waits for is done, and the task goes on.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_INTERVAL)
    if not task.cancelled():
        task.exception()  # seen; whoever cares for it watches the task itself

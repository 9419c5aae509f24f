"""Ending a task for certain."""

import asyncio
from typing import Any

_AGAIN_AFTER = 0.1  # seconds


async def end(task: "asyncio.Task[Any]") -> None:
    """Cancel it until it has ended.

    Once is not enough: on Python 3.11, asyncio.wait_for swallows a cancellation that comes in the very turn
    in which what it waits for is done, and the task goes on.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_AFTER)
    if not task.cancelled():
        task.exception()  # seen; whoever cares for it watches the task itself

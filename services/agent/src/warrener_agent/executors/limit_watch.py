"""What the processes of one attempt use together, held against its limits while it runs."""

import asyncio
from collections.abc import Callable
from typing import Any

from warrener_agent.executors.exit_info import LimitExceeded, find_exceeded_limit
from warrener_agent.executors.tree import Usage, own_memory, usage
from warrener_agent.isolation import Limits

_EVERY = 0.2
"""Seconds from one look to the next."""

Members = Callable[[], list[int]]
"""Finds the processes of an attempt."""


async def wait_until_exceeded(limits: Limits, members: Members) -> LimitExceeded:
    """Return once they use more than they may. What they have used before does not count."""
    before = (await asyncio.to_thread(_measure, limits, members)).cpu_seconds
    while True:
        await asyncio.sleep(_EVERY)
        seen = await asyncio.to_thread(_measure, limits, members)
        exceeded = find_exceeded_limit(
            limits, memory=seen.memory, cpu_seconds=seen.cpu_seconds - before, processes=seen.processes
        )
        if exceeded is not None:
            return exceeded


async def wait_first(
    work: asyncio.Task[Any], limits: Limits, members: Members, *others: asyncio.Future[Any]
) -> LimitExceeded | None:
    """Wait until `work` or one of `others` is done, or too much is used: then what is told of that."""
    watching = asyncio.create_task(wait_until_exceeded(limits, members)) if limits.needs_watching else None
    waited: set[asyncio.Future[Any]] = {work, *others}
    try:
        await asyncio.wait(waited | {watching} if watching else waited, return_when=asyncio.FIRST_COMPLETED)
        return watching.result() if watching is not None and watching.done() and not work.done() else None
    finally:
        if watching is not None:
            await cancel_and_wait(watching)


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """It does not go on, and what it ends with is not asked for."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def _measure(limits: Limits, members: Members) -> Usage:
    pids = members()
    seen = usage(pids)
    if limits.memory_bytes is None or seen.memory <= limits.memory_bytes:
        return seen
    # More than allowed, if what they share is counted for each: worth the slower look.
    return Usage(seen.processes, seen.threads, own_memory(pids) or seen.memory, seen.cpu_seconds)

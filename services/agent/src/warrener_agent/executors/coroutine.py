"""Attempts as coroutines of the agent's own event loop."""

import asyncio
from collections.abc import Mapping
from typing import Any

from warrener_agent.context import AttemptFacts, Desk
from warrener_agent.executors.call import call
from warrener_agent.executors.port import Ended
from warrener_agent.kinds import JobKind

_PATIENCE = 5.0
"""Seconds that a cancelled handler may take to tidy up."""


class CoroutineExecutor:
    """Each handler in a task of its own, which can be cancelled."""

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> "CoroutineExecution":
        task = asyncio.get_running_loop().create_task(call(kind, facts, arguments, desk), name=kind.name)
        return CoroutineExecution(task)

    async def close(self) -> None:
        """Nothing is kept."""


class CoroutineExecution:
    """A task."""

    __slots__ = ("done",)

    flight_record = None  # there is no process of its own to look at

    def __init__(self, done: asyncio.Task[Ended]) -> None:
        self.done = done

    async def stop(self) -> bool:
        self.done.cancel()
        await asyncio.wait({self.done}, timeout=_PATIENCE)
        return self.done.done()

    async def gone(self) -> None:
        await asyncio.wait({self.done})

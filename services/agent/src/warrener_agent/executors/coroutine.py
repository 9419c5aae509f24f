"""Attempts as coroutines of the agent's own event loop."""

import asyncio
from collections.abc import Mapping
from typing import Any

from warrener_agent.context import AttemptFacts, Desk
from warrener_agent.executors.call import call
from warrener_agent.executors.flight import in_the_agent
from warrener_agent.executors.last_words import Words, listen, tasks_of, words_here
from warrener_agent.executors.port import Ended
from warrener_agent.executors.stacks import task_stack
from warrener_agent.kinds import JobKind
from warrener_contracts.events import FlightRecord

_PATIENCE = 5.0
"""Seconds that a cancelled handler may take to tidy up."""


class CoroutineExecutor:
    """Each handler in a task of its own, which can be cancelled."""

    def __init__(self) -> None:
        listen()

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> "CoroutineExecution":
        words = words_here()
        task = asyncio.get_running_loop().create_task(call(kind, facts, arguments, desk), name=kind.name)
        return CoroutineExecution(task, words)

    async def close(self) -> None:
        """Nothing is kept."""


class CoroutineExecution:
    """A task."""

    __slots__ = ("_words", "done", "flight_record")

    def __init__(self, done: asyncio.Task[Ended], words: Words) -> None:
        self.done, self._words = done, words
        self.flight_record: FlightRecord | None = None

    async def stop(self) -> bool:
        tasks = sorted(tasks_of(self._words), key=lambda task: task is not self.done)
        self.flight_record = in_the_agent(map(task_stack, tasks), self._words)
        self.done.cancel()
        await asyncio.wait({self.done}, timeout=_PATIENCE)
        return self.done.done()

    async def gone(self) -> None:
        await asyncio.wait({self.done})

"""Attempts in child processes: the one executor that can stop whatever a handler does."""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from warrener_agent.context import AttemptFacts, Desk
from warrener_agent.executors.child_process import ChildProcess
from warrener_agent.executors.frames import Frame
from warrener_agent.executors.port import Ended
from warrener_agent.kinds import JobKind


class ProcessExecutor:
    """Keeps the children that have finished well warm for the next attempt; starts another when none is
    free."""

    def __init__(self) -> None:
        self._idle: list[ChildProcess] = []

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> "ProcessExecution":
        return ProcessExecution(self, _assignment(kind, facts, arguments), desk)

    async def borrow(self) -> ChildProcess:
        """A child that waits for work."""
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
        return await ChildProcess.start()

    def give_back(self, child: ChildProcess) -> None:
        """It has finished and may do more."""
        self._idle.append(child)

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for child in idle:
            await child.kill()


class ProcessExecution:
    """One assignment of one child."""

    def __init__(self, executor: ProcessExecutor, assignment: Frame, desk: Desk) -> None:
        self._executor = executor
        self._child: ChildProcess | None = None
        self.done = asyncio.create_task(self._run(assignment, desk))

    async def _run(self, assignment: Frame, desk: Desk) -> Ended:
        self._child = await self._executor.borrow()
        ended = await self._child.run(assignment, desk)
        child, self._child = self._child, None
        if child.alive:
            self._executor.give_back(child)
        return ended

    async def stop(self) -> bool:
        self.done.cancel()
        await asyncio.wait({self.done})
        if self._child is not None:
            await self._child.kill()
        return True

    async def gone(self) -> None:
        await asyncio.wait({self.done})


def _assignment(kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any]) -> Frame:
    return {
        "path": sys.path,
        "module": kind.handler.__module__,
        "qualname": kind.handler.__qualname__,
        "arguments": json.dumps(arguments),  # as text: what users say is not ours to read
        "checkpoint": json.dumps(facts.last_checkpoint),
        "facts": {
            "job_id": facts.job_id,
            "job_type": facts.job_type,
            "attempt": facts.attempt,
            "max_attempts": facts.max_attempts,
            "deadline": facts.deadline,
        },
    }

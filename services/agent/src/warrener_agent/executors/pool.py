"""Warm child processes."""

import asyncio
from collections import defaultdict

from warrener_agent.executors.child_process import ChildProcess
from warrener_agent.isolation import Recycle, Surroundings


class Pool:
    """Children that have finished well wait here for the next attempt with the same surroundings; another
    is started where none is free."""

    def __init__(self) -> None:
        self._idle: defaultdict[Surroundings, list[ChildProcess]] = defaultdict(list)
        self._closing: set[asyncio.Task[None]] = set()

    async def borrow(self, surroundings: Surroundings) -> ChildProcess:
        """A child that waits for work. Raises AccountError."""
        idle = self._idle[surroundings]
        while idle:
            child = idle.pop()
            if child.alive:
                return child
            self.dismiss(child)
        return await ChildProcess.start(surroundings)

    def give_back(self, child: ChildProcess, surroundings: Surroundings, recycle: Recycle) -> None:
        """It has finished. It may do more, unless its time is over, or something that the attempt has
        started still runs: nothing of an attempt outlives it."""
        if not child.alive or child.left_something or recycle.is_due(child.jobs, child.memory):
            self.dismiss(child)
        else:
            self._idle[surroundings].append(child)

    def dismiss(self, child: ChildProcess) -> None:
        """It is not needed any more."""
        task = asyncio.create_task(child.close(), name="dismissal")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Let all of them go, and wait until they are gone."""
        idle, self._idle = self._idle, defaultdict(list)
        for children in idle.values():
            for child in children:
                self.dismiss(child)
        if self._closing:
            await asyncio.wait(set(self._closing))

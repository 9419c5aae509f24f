"""Warm child processes."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

from warrener_agent.executors.account import AccountError
from warrener_agent.executors.child_process import ChildProcess
from warrener_agent.isolation import Recycle, Surroundings
from warrener_runtime.logs import get_logger

_log = get_logger("agent.pool")


class Pool:
    """Children that have finished well wait here for the next attempt with the same surroundings; another
    is started where none is free."""

    def __init__(self) -> None:
        self._idle: defaultdict[Surroundings, list[ChildProcess]] = defaultdict(list)
        self._closing: set[asyncio.Task[None]] = set()
        self._replacing: dict[Surroundings, asyncio.Task[None]] = {}

    async def borrow(self, surroundings: Surroundings) -> ChildProcess:
        """A child that waits for work. Raises AccountError."""
        idle = self._idle[surroundings]
        while idle:
            child = idle.pop()
            if child.alive:
                return child
            self.dismiss(child)
        return await ChildProcess.start(surroundings)

    def give_back(self, child: ChildProcess, surroundings: Surroundings, recycle: Recycle) -> bool:
        """It has finished. It may do more, unless its time is over, or something that the attempt has
        started still runs: nothing of an attempt outlives it. Returns whether it is kept."""
        if not child.alive or child.left_something or recycle.is_due(child.jobs, child.memory):
            self.dismiss(child)
            return False
        self._idle[surroundings].append(child)
        return True

    def replace(self, surroundings: Surroundings, pause: Callable[[], Awaitable[None]]) -> None:
        """Another one for a child that has ended, after a pause: the next attempt finds it warm. One is
        enough, and none is needed where one is idle."""
        if self._idle[surroundings] or surroundings in self._replacing:
            return
        task = asyncio.create_task(self._replace(surroundings, pause), name="replacement")
        self._replacing[surroundings] = task
        task.add_done_callback(lambda _: self._replacing.pop(surroundings, None))

    async def _replace(self, surroundings: Surroundings, pause: Callable[[], Awaitable[None]]) -> None:
        await pause()
        try:
            child = await ChildProcess.start(surroundings)
        except (AccountError, OSError) as error:  # the attempt that needs one will say so again
            _log.warning(
                "A child process cannot be replaced now.", action="agent.not_replaced", why=str(error)
            )
            return
        self._idle[surroundings].append(child)
        _log.info("A child process has a successor.", action="agent.child_replaced", pid=child.pid)

    def dismiss(self, child: ChildProcess) -> None:
        """It is not needed any more."""
        task = asyncio.create_task(child.close(), name="dismissal")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Let all of them go, and wait until they are gone."""
        replacing = set(self._replacing.values())
        for task in replacing:
            task.cancel()
        if replacing:
            await asyncio.wait(replacing)
        idle, self._idle = self._idle, defaultdict(list)
        for children in idle.values():
            for child in children:
                self.dismiss(child)
        if self._closing:
            await asyncio.wait(set(self._closing))

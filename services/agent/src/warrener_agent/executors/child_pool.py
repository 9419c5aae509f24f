"""Warm child processes."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

from warrener_agent.executors.child_process import ChildProcess
from warrener_agent.executors.system_user import UserUnavailable
from warrener_agent.isolation import ProcessSettings, Recycle
from warrener_runtime.logs import get_logger

_log = get_logger("agent.pool")


class ChildPool:
    """Children that have finished well wait here for the next attempt with the same surroundings; another
    is started where none is free."""

    def __init__(self) -> None:
        self._idle: defaultdict[ProcessSettings, list[ChildProcess]] = defaultdict(list)
        self._closing: set[asyncio.Task[None]] = set()
        self._replacing: dict[ProcessSettings, asyncio.Task[None]] = {}

    async def borrow(self, process_settings: ProcessSettings) -> ChildProcess:
        """A child that waits for work. Raises AccountError."""
        idle = self._idle[process_settings]
        while idle:
            child = idle.pop()
            if child.alive:
                return child
            self.dismiss(child)
        return await ChildProcess.start(process_settings)

    def give_back(self, child: ChildProcess, process_settings: ProcessSettings, recycle: Recycle) -> bool:
        """It has finished. It may do more, unless its time is over, or something that the attempt has
        started still runs: nothing of an attempt outlives it. Returns whether it is kept."""
        if not child.alive or child.has_leftovers or recycle.is_due(child.jobs, child.memory):
            self.dismiss(child)
            return False
        self._idle[process_settings].append(child)
        return True

    def replace(self, process_settings: ProcessSettings, pause: Callable[[], Awaitable[None]]) -> None:
        """Another one for a child that has ended, after a pause: the next attempt finds it warm. One is
        enough, and none is needed where one is idle."""
        if self._idle[process_settings] or process_settings in self._replacing:
            return
        task = asyncio.create_task(self._replace(process_settings, pause), name="replacement")
        self._replacing[process_settings] = task
        task.add_done_callback(lambda _: self._replacing.pop(process_settings, None))

    async def _replace(self, process_settings: ProcessSettings, pause: Callable[[], Awaitable[None]]) -> None:
        await pause()
        try:
            child = await ChildProcess.start(process_settings)
        except (UserUnavailable, OSError) as error:  # the attempt that needs one will say so again
            _log.warning(
                "A child process cannot be replaced now.", action="agent.not_replaced", why=str(error)
            )
            return
        self._idle[process_settings].append(child)
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

"""The end of `up`: agents first, then those who judge and plan, then the broker."""

import asyncio
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from warrener.up.output import ConsoleOutput
from warrener.up.supervised_process import SupervisedProcess

T = TypeVar("T")

_ORDER = (("agent",), ("supervisor", "scheduler"))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AFTER_HURRY = 5.0  # seconds that a hurried service may take until it is killed
_AFTER_DRAIN = 20.0  # seconds over its own grace until a service that hangs is killed
_GRACE = 30.0


class Shutdown:
    """The first signal asks for a drain, the second one hurries, the third one kills."""

    def __init__(self, output: ConsoleOutput) -> None:
        self.requested = asyncio.Event()
        self._hurry = asyncio.Event()
        self._kill = asyncio.Event()
        self._output = output

    @property
    def hurried(self) -> bool:
        """Whether somebody asked twice."""
        return self._hurry.is_set()

    @contextmanager
    def on_signals(self) -> Generator[None]:
        """Listen to Ctrl-C, SIGTERM and SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.request)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def request(self) -> None:
        """One more time."""
        if not self.requested.is_set():
            self.requested.set()
            self._output.event("draining", "stopping: what runs may finish; Ctrl-C again hurries")
        elif not self._hurry.is_set():
            self._hurry.set()
            self._output.event("hurrying", "hurrying: what runs is given back, and runs again later")
        else:
            self._kill.set()

    async def result_unless_requested(self, work: asyncio.Task[T]) -> T | None:
        """The result of `work`; None if somebody asks to stop before."""
        requested = asyncio.create_task(self.requested.wait())
        try:
            await asyncio.wait({work, requested}, return_when=asyncio.FIRST_COMPLETED)
            return await work if work.done() else None
        finally:
            requested.cancel()

    async def stop_all(self, tasks: Mapping[asyncio.Task[None], SupervisedProcess]) -> None:
        """End all of them, in this order, each with time to finish."""
        for services in _ORDER:
            some = {task: child for task, child in tasks.items() if child.spec.service in services}
            await self._stop(some)
        self._output.event("stopped", "all services have stopped")

    async def _stop(self, some: Mapping[asyncio.Task[None], SupervisedProcess]) -> None:
        for child in some.values():
            child.stop()
        if await self._wait_ended(some, self._hurry, _GRACE + _AFTER_DRAIN):
            return
        for child in some.values():
            child.stop()  # a second SIGTERM hurries a service
        if not await self._wait_ended(some, self._kill, _AFTER_HURRY):
            for child in some.values():
                self._output.event("killed", "does not end; killed", source=child.spec.name)
                child.stop(signal.SIGKILL)
            await asyncio.wait(some)

    async def _wait_ended(
        self, some: Mapping[asyncio.Task[None], SupervisedProcess], hurry: asyncio.Event, seconds: float
    ) -> bool:
        """Whether all have ended before somebody loses patience, or the time is up."""
        if not some:
            return True
        ending = asyncio.create_task(asyncio.wait(some))
        hurried_up = asyncio.create_task(hurry.wait())
        await asyncio.wait({ending, hurried_up}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        over = all(task.done() for task in some)
        ending.cancel()
        hurried_up.cancel()
        return over

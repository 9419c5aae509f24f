"""The end of `up`: agents first, then those who judge and plan, then the broker."""

import asyncio
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from warrener.up.child import Child
from warrener.up.voice import Voice

T = TypeVar("T")

_ORDER = (("agent",), ("supervisor", "scheduler"))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AFTER_HURRY = 5.0  # seconds that a hurried service may take until it is killed
_AFTER_DRAIN = 20.0  # seconds over its own grace until a service that hangs is killed
_GRACE = 30.0


class Stopping:
    """The first signal asks for a drain, the second one hurries, the third one kills."""

    def __init__(self, voice: Voice) -> None:
        self.asked = asyncio.Event()
        self._hurry = asyncio.Event()
        self._kill = asyncio.Event()
        self._voice = voice

    @property
    def hurried(self) -> bool:
        """Whether somebody asked twice."""
        return self._hurry.is_set()

    @contextmanager
    def on_signals(self) -> Generator[None]:
        """Listen to Ctrl-C, SIGTERM and SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.ask)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def ask(self) -> None:
        """One more time."""
        if not self.asked.is_set():
            self.asked.set()
            self._voice.event("draining", "stopping: what runs may finish; Ctrl-C again hurries")
        elif not self._hurry.is_set():
            self._hurry.set()
            self._voice.event("hurrying", "hurrying: what runs is given back, and runs again later")
        else:
            self._kill.set()

    async def unless_asked(self, work: asyncio.Task[T]) -> T | None:
        """The result of `work`; None if somebody asks to stop before."""
        asked = asyncio.create_task(self.asked.wait())
        try:
            await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
            return await work if work.done() else None
        finally:
            asked.cancel()

    async def in_order(self, lives: Mapping[asyncio.Task[None], Child]) -> None:
        """End all of them, in this order, each with time to finish."""
        for services in _ORDER:
            some = {life: child for life, child in lives.items() if child.member.service in services}
            await self._end(some)
        self._voice.event("stopped", "all services have stopped")

    async def _end(self, some: Mapping[asyncio.Task[None], Child]) -> None:
        for child in some.values():
            child.leave()
        if await self._over(some, self._hurry, _GRACE + _AFTER_DRAIN):
            return
        for child in some.values():
            child.leave()  # a second SIGTERM hurries a service
        if not await self._over(some, self._kill, _AFTER_HURRY):
            for child in some.values():
                self._voice.event("killed", "does not end; killed", of=child.member.name)
                child.leave(signal.SIGKILL)
            await asyncio.wait(some)

    async def _over(
        self, some: Mapping[asyncio.Task[None], Child], impatience: asyncio.Event, seconds: float
    ) -> bool:
        """Whether all have ended before somebody loses patience, or the time is up."""
        if not some:
            return True
        ending = asyncio.create_task(asyncio.wait(some))
        impatient = asyncio.create_task(impatience.wait())
        await asyncio.wait({ending, impatient}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        over = all(life.done() for life in some)
        ending.cancel()
        impatient.cancel()
        return over

"""Start, drain and stop, written once for everything that lives for a while."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from warrener_runtime.logs import get_logger

log = get_logger("lifecycle")


class Component(Protocol):
    """Something that starts and stops. All may be called at any time, in any order, by several at once."""

    async def start(self) -> None:
        """Return once it works. Raises if it cannot, and then nothing of it is left."""
        ...

    async def drain(self) -> None:
        """Take no new work, and return once what runs is finished."""
        ...

    async def stop(self) -> None:
        """Let go of everything now. Safe before start, during start and twice."""
        ...


class StoppedWhileStarting(Exception):
    """`stop` was called before `start` was through."""


class ManagedComponent:
    """Puts the calls in order, so that a component only says what to do in its three hooks.

    - The hooks never overlap, except that `_on_stop` follows a cancelled `_on_start` or `_on_drain`.
    - A second `start` joins the first. A `start` during a `stop` waits for it, and then begins anew.
    - `stop` cancels a start or a drain that is under way. A start that fails or is cancelled is stopped.
    - `_on_stop` must cope with a start that got half way, and with being called twice.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._starting: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def _on_start(self) -> None: ...

    async def _on_drain(self) -> None: ...

    async def _on_stop(self) -> None: ...

    @property
    def started(self) -> bool:
        """Whether a start is through and no stop has begun."""
        return self._stopping is None and self._starting is not None and _succeeded(self._starting)

    async def start(self) -> None:
        while self._stopping is not None:
            await asyncio.wait({self._stopping})
        if self._starting is None:
            self._starting = _spawn(self._begin(), f"start {self.name}")
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if is_being_cancelled():
                await self.stop()
                raise
            raise StoppedWhileStarting(f"{self.name} was stopped before it had started") from None

    async def drain(self) -> None:
        if self._stopping is not None or self._starting is None or not self._starting.done():
            await self.stop()  # nothing runs yet that could be finished
            return
        if self._draining is None:
            self._draining = _spawn(self._on_drain(), f"drain {self.name}")
        try:
            await asyncio.shield(self._draining)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            # a stop has hurried the drain: there is nothing left to wait for

    async def stop(self) -> None:
        if self._stopping is None:
            if self._starting is None:
                return
            self._stopping = _spawn(self._end(), f"stop {self.name}")
        await asyncio.shield(self._stopping)

    async def _begin(self) -> None:
        try:
            await self._on_start()
        except BaseException:
            if self._stopping is None:  # otherwise the stop that cancelled us lets go
                await self._stop_quietly()
                self._starting = None
            raise

    async def _stop_quietly(self) -> None:
        try:
            await self._on_stop()
        except Exception:
            log.exception(
                "A component whose start failed could not be stopped cleanly either.",
                action="lifecycle.stop_failed",
                component=self.name,
            )

    async def _end(self) -> None:
        try:
            for task in (self._starting, self._draining):
                await cancel(task)
            await self._on_stop()
        finally:
            self._starting = self._draining = self._stopping = None


def is_being_cancelled() -> bool:
    """Whether somebody cancelled the current task, and not just what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end, however it ends."""
    if task is not None and not task.done():
        task.cancel()
        await asyncio.wait({task})


def _succeeded(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_retrieve_exception)
    return task


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Whoever waits gets it; where nobody waits any more, asyncio must not complain."""
    if not task.cancelled():
        task.exception()

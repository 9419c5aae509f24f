"""An event loop for simulations, in which nothing but other tasks makes a task ready."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVarTuple

_Ts = TypeVarTuple("_Ts")
_TURNS_BETWEEN_POLLS = 100
"""Turns after which the operating system is polled although tasks are ready: threads and real timers
wait no longer than that."""


class SimulationLoop(asyncio.SelectorEventLoop):
    """Polls the operating system only when no task is ready, and calls back when that is so.

    asyncio polls in every turn, and a task that waits until all others rest takes part in every turn. Both
    together take a seventh of a simulation's processor time.
    """

    _ready: deque[Any]
    _polls_in: int = _TURNS_BETWEEN_POLLS
    _proceed: Callable[[], bool] | None = None
    _finished: "asyncio.Future[None] | None" = None

    async def run_while(self, proceed: Callable[[], bool]) -> None:
        """Call `proceed`, which makes tasks ready, whenever no task is, until it returns False.

        Raises what it raises. Tasks that wait for a thread or a socket are not ready.
        """
        if self._finished is not None:
            raise RuntimeError("expected one task to run the simulation, got a second; let one of them do it")
        self._proceed, self._finished = proceed, self.create_future()
        try:
            await self._finished
        finally:
            self._proceed = self._finished = None

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Do as asyncio does, without its checks of debug mode."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        ready = self._ready
        while not ready and self._proceed is not None:
            self._step(self._proceed)
        self._polls_in -= 1
        if not ready or not self._polls_in:
            self._polls_in = _TURNS_BETWEEN_POLLS
            super()._run_once()  # type: ignore[misc]
            return
        for _ in range(len(ready)):  # what these make ready waits for the next turn, as in asyncio
            handle = ready.popleft()
            if not handle._cancelled:  # noqa: SLF001 - asyncio has no public loop to build upon
                handle._run()  # noqa: SLF001

    def _step(self, proceed: Callable[[], bool]) -> None:
        finished = self._finished
        assert finished is not None
        self._proceed = None  # until it is known that there is more to do
        if finished.done():  # its task was cancelled
            return
        try:
            if proceed():
                self._proceed = proceed
            else:
                finished.set_result(None)
        except Exception as error:  # noqa: BLE001 - its caller raises it
            finished.set_exception(error)

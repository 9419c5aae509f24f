"""In a child process: where all of its threads and tasks are, told even while it is stuck."""

import asyncio
import faulthandler
import io
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine, Mapping
from types import FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")
SIGNAL: Final = signal.SIGUSR2
"""Makes a child write its stacks to the file of its agent, whatever it does at that moment."""


class Stacks:
    """Of this process. `file` is where they are written at a fatal signal, at SIGXCPU, and at `SIGNAL`."""

    def __init__(self, file: int) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        faulthandler.enable(file)
        faulthandler.register(SIGNAL, file)
        faulthandler.register(signal.SIGXCPU, file, chain=True)  # and then it ends, as the kernel wants

    async def track_tasks(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it; the tasks of its event loop are told of as long as it runs."""
        self._loop = asyncio.get_running_loop()
        try:
            return await work
        finally:
            self._loop = None

    def text(self) -> str:
        """Of all threads but the one that asks, and of all tasks."""
        others = set(_frames()) - {threading.get_ident()}
        return "\n".join([*map(thread_stack, others), *self._tasks()])

    def _tasks(self) -> list[str]:
        loop = self._loop
        return [] if loop is None else [task_stack(one) for one in asyncio.all_tasks(loop)]


def thread_stack(ident: int) -> str:
    """Where a thread of this process is."""
    name = next((one.name for one in threading.enumerate() if one.ident == ident), ident)
    frame = _frames().get(ident)
    where = "it has ended\n" if frame is None else "".join(traceback.format_stack(frame))
    return f"Thread {name} (most recent call last):\n{where}"


def _frames() -> Mapping[int, FrameType]:
    # The only way to see other threads; documented, for all its name.
    return sys._current_frames()  # noqa: SLF001


def task_stack(task: asyncio.Task[Any]) -> str:
    """Where a task is, down to what it waits for."""
    buffer = io.StringIO()
    buffer.write(f"Task {task.get_name()} (most recent call last):\n")
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None)
        if frame is not None:
            buffer.write(
                "".join(traceback.format_list(traceback.StackSummary.extract([(frame, frame.f_lineno)])))
            )
        awaited = getattr(awaited, "cr_await", None)
    return buffer.getvalue()

"""The stacks of threads and tasks, which even a stuck process can write."""

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
"""Makes a child write its stacks to the agent's file, whatever it does at that moment."""


class Stacks:
    """The stacks of a child process, written to `file` at a fatal signal, SIGXCPU or `SIGNAL`."""

    def __init__(self, file: int) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        faulthandler.enable(file)
        faulthandler.register(SIGNAL, file)
        faulthandler.register(signal.SIGXCPU, file, chain=True)  # and then it ends, as the kernel wants

    async def track_tasks(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work`; meanwhile `text` includes the tasks of its event loop."""
        self._loop = asyncio.get_running_loop()
        try:
            return await work
        finally:
            self._loop = None

    def text(self) -> str:
        """Return the stacks of all threads but the calling one, and of all tasks."""
        others = set(_frames()) - {threading.get_ident()}
        tasks = () if self._loop is None else asyncio.all_tasks(self._loop)
        return "\n".join([*map(thread_stack, others), *map(task_stack, tasks)])


def thread_stack(ident: int) -> str:
    """Return the stack of a thread of this process."""
    name = next((one.name for one in threading.enumerate() if one.ident == ident), ident)
    frame = _frames().get(ident)
    where = "it has ended\n" if frame is None else "".join(traceback.format_stack(frame))
    return f"Thread {name} (most recent call last):\n{where}"


def _frames() -> Mapping[int, FrameType]:
    # The only way to see other threads; documented, despite its name.
    return sys._current_frames()  # noqa: SLF001


def task_stack(task: asyncio.Task[Any]) -> str:
    """Return the stack of a task, down to the coroutine that it awaits."""
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

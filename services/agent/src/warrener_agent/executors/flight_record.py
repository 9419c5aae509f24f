"""The flight record of an attempt: its output, logs, stacks and usage, in case it is stopped or dies."""

import asyncio
import faulthandler
import gc
import io
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

from warrener_agent.executors.process_tree import open_files, usage
from warrener_agent.ledger.port import Claim
from warrener_agent.log_buffer import LogBuffer, attempt_fields, render_line, render_output
from warrener_contracts.events import AttemptDispatchedData, FlightRecord
from warrener_runtime import log_scopes
from warrener_runtime.log_scopes import LoggedLine
from warrener_runtime.secrets import mask

T = TypeVar("T")
SIGNAL: Final = signal.SIGUSR2
"""Makes a child write its stacks to the agent's file, whatever it does at that moment."""
LOG_BYTES = 8_000  # bytes of the last output that are kept
_MAX_STACKS = 16_000
_MAX_LINES = 100
_PIECE = 1 << 16
_PIPE = 1 << 20  # the maximum that a pipe holds

# -- attempts in processes of their own --------------------------------------------------------------------


class CapturedOutput:
    """A pipe whose reading end is the agent's. The last output is kept, or the first, and forwarded to an
    output of the agent.

    The event loop reads it as it comes, so that the process never waits for the agent for long; `drain` reads
    what the pipe holds and waits for nothing, not even for the other ends to be closed.
    """

    def __init__(
        self, *, capacity: int = LOG_BYTES, keep_first: bool = False, forward_to: int | None = None
    ) -> None:
        self._capacity, self._keep_first, self._forward_to = capacity, keep_first, forward_to
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._open = self._ours = True
        self.listener: Callable[[bytes], None] | None = None
        """Receives each piece of the output, if there is one."""
        self._loop.add_reader(self._reading, self._read_piece)
        self.overflow: asyncio.Future[None] = self._loop.create_future()

    def close_writing_end(self) -> None:
        """Close the agent's copy of the writing end, once the process has its own."""
        if self._ours:
            self._ours = False
            os.close(self.writing)

    def clear(self) -> None:
        self.drain()
        self._pieces.clear()
        self._size = 0

    def drain(self) -> None:
        """Read what was written by now, without waiting for a process that writes endlessly."""
        for _ in range(_PIPE // _PIECE):
            if not self._open or not self._read_piece():
                return

    @property
    def content(self) -> bytes:
        """The part that is kept."""
        whole = b"".join(self._pieces)
        return whole[: self._capacity] if self._keep_first else whole[-self._capacity :]

    @property
    def text(self) -> str:
        """The part that is kept, as text."""
        return self.content.decode(errors="replace")

    def close(self) -> None:
        self.close_writing_end()
        if self._open:
            self._close_reader()
        self.overflow.cancel()

    def _read_piece(self) -> bool:
        """Read one piece; False if there is none."""
        try:
            piece = os.read(self._reading, _PIECE)
        except BlockingIOError:
            return False
        if not piece:
            self._close_reader()
            return False
        self._store(piece)
        if self.listener is not None:
            self.listener(piece)
        if self._forward_to is not None:
            with suppress(OSError):  # closed or full: the agent must not wait for a handler's output
                os.write(self._forward_to, piece)
        return True

    def _close_reader(self) -> None:
        self._open = False
        self._loop.remove_reader(self._reading)
        os.close(self._reading)

    def _store(self, piece: bytes) -> None:
        if self._keep_first and self._size > self._capacity:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if not self._keep_first:
            while self._size - len(self._pieces[0]) >= self._capacity:
                self._size -= len(self._pieces.popleft())
        elif self._size > self._capacity and not self.overflow.done():
            self.overflow.set_result(None)


def record_processes(log: CapturedOutput, pids: Sequence[int], stacks: str) -> FlightRecord:
    """Record an attempt that has written `log`, at this moment. `pids`: its processes, if they still run."""
    log.drain()
    record = FlightRecord(
        stacks=stacks[-_MAX_STACKS:] or None, log=_masked(render_output(log.text[-LOG_BYTES:]))
    )
    used = usage(pids)
    if not used.processes:
        return record
    return record.model_copy(
        update={
            "cpu_seconds": used.cpu_seconds,
            "memory_bytes": used.memory,
            "processes": used.processes,
            "threads": used.threads,
            "open_files": open_files(pids),
        }
    )


def command_lines(pids: Sequence[int]) -> str:
    """Describe processes that have no Python stacks: command, state, and where in the kernel each waits."""
    return "\n".join(line for pid in pids if (line := _command_line(Path("/proc") / str(pid))))


# -- attempts in the agent's own process -------------------------------------------------------------------


class LogCapture:
    """The log scope of one attempt: its last lines, for the flight record, and its log.

    Each attempt has one in its context, which its tasks and threads inherit: so a task's attempt can be found
    too. An attempt that logs nothing costs nothing.
    """

    __slots__ = ("_dispatch", "_lines", "_log")

    def __init__(self, dispatch: AttemptDispatchedData, log: LogBuffer) -> None:
        self._dispatch, self._log = dispatch, log
        self._lines: deque[LoggedLine] | None = None

    @property
    def claim(self) -> Claim:
        return Claim(self._dispatch.job_id, self._dispatch.attempt)

    @property
    def fields(self) -> Mapping[str, object]:
        return attempt_fields(self._dispatch)

    def hide(self, text: str) -> str:
        return self._log.hide(text)

    def capture(self, line: LoggedLine) -> None:
        if self._lines is None:
            self._lines = deque(maxlen=_MAX_LINES)
        self._lines.append(line._replace(text=line.text[:LOG_BYTES]))
        self._log.add(line)

    @property
    def text(self) -> str | None:
        """The last lines, if there are any."""
        return "\n".join(map(render_line, self._lines))[-LOG_BYTES:] if self._lines else None


def start_log_capture(dispatch: AttemptDispatchedData, log: LogBuffer) -> LogCapture:
    """Start the capture in this context: the attempt's tasks and threads must be started from it."""
    log_capture = LogCapture(dispatch, log)
    log_scopes.current_scope.set(log_capture)
    return log_capture


def find_tasks(log_capture: LogCapture) -> list[asyncio.Task[Any]]:
    """Return the tasks of this event loop that belong to the attempt. Looks at all tasks."""
    return [task for task in asyncio.all_tasks() if log_capture is find_log_capture(task)]


def find_log_capture(task: asyncio.Task[Any]) -> LogCapture | None:
    """Return the capture of the attempt to which a task belongs, if it belongs to one."""
    # Task.get_context() exists from Python 3.12 on; before that the collector alone knows.
    for held in gc.get_referents(task):
        if isinstance(held, Context):
            scope = held.get(log_scopes.current_scope)
            return scope if isinstance(scope, LogCapture) else None
    return None


def record_in_agent(
    stacks: Iterable[str], log_capture: LogCapture, *, cpu_seconds: float | None = None
) -> FlightRecord:
    """Record an attempt that shares the agent's process: its usage cannot be separated."""
    text = "\n".join(stacks)
    return FlightRecord(
        stacks=text[-_MAX_STACKS:] or None, log=_masked(log_capture.text), cpu_seconds=cpu_seconds
    )


def with_progress(
    record: FlightRecord | None, progress_value: tuple[float, str] | None
) -> FlightRecord | None:
    """Add the progress that the handler reported, if any."""
    if record is None or progress_value is None:
        return record
    fraction, note = progress_value
    return record.model_copy(update={"progress": fraction, "progress_note": note or None})


def _masked(text: str | None) -> str | None:
    return mask(text) if text else None


def _command_line(folder: Path) -> str:
    with suppress(OSError):
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        where = ""
        with suppress(OSError):
            where = (folder / "wchan").read_text().strip("0")
        return f"Process {folder.name} ({state}, {f'waits in {where}' if where else 'runs'}): {command[:400]}"
    return ""


# -- the stacks of threads and tasks, which even a stuck process can write ---------------------------------


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

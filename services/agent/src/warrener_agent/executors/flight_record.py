"""The flight record of an attempt: its output, logs, stacks and usage, in case it is stopped or dies."""

import asyncio
import gc
import logging
import os
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar
from enum import Enum
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from warrener_agent.executors.process_tree import open_files, usage
from warrener_agent.ledger.port import Claim
from warrener_contracts.events import FlightRecord
from warrener_runtime.secrets import mask

LOG_BYTES = 8_000
"""Bytes of the last output that are kept."""
_MAX_STACKS = 16_000
_MAX_LINES = 100
_PIECE = 1 << 16
_PIPE = 1 << 20
"""The maximum that a pipe holds."""

# -- attempts in processes of their own --------------------------------------------------------------------


class Keep(Enum):
    """Which part of an output is kept if it exceeds the capacity."""

    FIRST = "first"
    LAST = "last"


class CapturedOutput:
    """A pipe whose reading end is the agent's. Output is kept, and forwarded to an output of the agent.

    The event loop reads it as it comes, so that the process never waits for the agent for long; `drain` reads
    what the pipe holds and waits for nothing, not even for the other ends to be closed.
    """

    def __init__(
        self, *, capacity: int = LOG_BYTES, keep: Keep = Keep.LAST, forward_to: int | None = None
    ) -> None:
        self._capacity, self._keep, self._forward_to = capacity, keep, forward_to
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._open = self._ours = True
        self._loop.add_reader(self._reading, self._read_piece)
        self.overflow: asyncio.Future[None] = self._loop.create_future()

    def close_writing_end(self) -> None:
        """Close the agent's copy of the writing end, once the process has its own."""
        if self._ours:
            self._ours = False
            os.close(self.writing)

    def clear(self) -> None:
        """Forget the output so far."""
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
        return whole[-self._capacity :] if self._keep is Keep.LAST else whole[: self._capacity]

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
        if self._forward_to is not None:
            with suppress(OSError):  # closed or full: the agent must not wait for a handler's output
                os.write(self._forward_to, piece)
        return True

    def _close_reader(self) -> None:
        self._open = False
        self._loop.remove_reader(self._reading)
        os.close(self._reading)

    def _store(self, piece: bytes) -> None:
        if self._keep is Keep.FIRST and self._size > self._capacity:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._keep is Keep.LAST:
            while self._size - len(self._pieces[0]) >= self._capacity:
                self._size -= len(self._pieces.popleft())
        elif self._size > self._capacity and not self.overflow.done():
            self.overflow.set_result(None)


class FlightRecorder:
    """Records the attempts of one process, one after another."""

    def __init__(self, log: CapturedOutput) -> None:
        self._log = log
        self._progress: tuple[float, str] | None = None

    def begin(self) -> None:
        """Begin another attempt, and forget the last one."""
        self._log.clear()
        self._progress = None

    def progress(self, fraction: float, note: str) -> None:
        """Note the progress of the attempt."""
        self._progress = fraction, note

    def record(self, pids: Sequence[int], stacks: str) -> FlightRecord:
        """Return the record at this moment. `pids`: the attempt's processes, if they still run."""
        self._log.drain()
        fraction, note = self._progress or (None, None)
        record = FlightRecord(
            stacks=stacks[-_MAX_STACKS:] or None,
            log=_masked(self._log.text),
            progress=fraction,
            progress_note=note or None,
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
    """The last lines that one attempt has logged.

    Each attempt has one in its context, which its tasks and threads inherit: so a task's attempt can be found
    too. An attempt that logs nothing costs nothing.
    """

    __slots__ = ("_lines", "attempt", "job_id")

    def __init__(self, job_id: UUID, attempt: int) -> None:
        self.job_id, self.attempt = job_id, attempt
        self._lines: deque[str] | None = None

    @property
    def claim(self) -> Claim:
        return Claim(self.job_id, self.attempt)

    def add_line(self, line: str) -> None:
        """Add a line, in place of the oldest if there are too many."""
        if self._lines is None:
            self._lines = deque(maxlen=_MAX_LINES)
        self._lines.append(line)

    @property
    def text(self) -> str | None:
        """All lines, if there are any."""
        return "\n".join(self._lines)[-LOG_BYTES:] if self._lines else None


_LOG_CAPTURE: Final = ContextVar[LogCapture | None]("warrener_log_capture", default=None)


class _CaptureHandler(logging.Handler):
    """Gives each record to the attempt in whose context it was logged."""

    def emit(self, record: logging.LogRecord) -> None:
        log_capture = _LOG_CAPTURE.get()
        if log_capture is not None:
            log_capture.add_line(self.format(record))


_CAPTURE_HANDLER: Final = _CaptureHandler()
_CAPTURE_HANDLER.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))


def install_log_capture() -> None:
    """Capture log records from now on. May be called again."""
    logging.getLogger().addHandler(_CAPTURE_HANDLER)


def start_log_capture(job_id: UUID, attempt: int) -> LogCapture:
    """Start the capture in this context: the attempt's tasks and threads must be started from it."""
    log_capture = LogCapture(job_id, attempt)
    _LOG_CAPTURE.set(log_capture)
    return log_capture


def find_tasks(log_capture: LogCapture) -> list[asyncio.Task[Any]]:
    """Return the tasks of this event loop that belong to the attempt. Looks at all tasks."""
    return [task for task in asyncio.all_tasks() if log_capture is find_log_capture(task)]


def find_log_capture(task: asyncio.Task[Any]) -> LogCapture | None:
    """Return the capture of the attempt to which a task belongs, if it belongs to one."""
    # Task.get_context() exists from Python 3.12 on; before that the collector alone knows.
    for held in gc.get_referents(task):
        if isinstance(held, Context):
            return held.get(_LOG_CAPTURE)
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
    """Hide the passwords of URLs."""
    return mask(text) if text else None


def _command_line(folder: Path) -> str:
    with suppress(OSError):
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        return f"Process {folder.name} ({state}, {_describe_wait(folder)}): {command[:400]}"
    return ""


def _describe_wait(folder: Path) -> str:
    with suppress(OSError):
        where = (folder / "wchan").read_text().strip("0")
        return f"waits in {where}" if where else "runs"
    return "runs"

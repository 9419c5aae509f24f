"""What an attempt in the agent's own process logs, and which tasks are its own: for the flight record.

Each attempt has a `LogCapture` in its context, which the tasks and threads that it starts inherit. Nothing is
kept of those that log nothing.
"""

import asyncio
import gc
import logging
from collections import deque
from contextvars import Context, ContextVar
from typing import Any, Final
from uuid import UUID

from warrener_agent.executors.output import LOG_BYTES

_LINES = 100


class LogCapture:
    """The last lines that one attempt has logged, and which attempt that is."""

    __slots__ = ("_lines", "attempt", "job_id")

    def __init__(self, job_id: UUID, attempt: int) -> None:
        self.job_id, self.attempt = job_id, attempt
        self._lines: deque[str] | None = None

    def add_line(self, line: str) -> None:
        """Another line; the oldest makes room."""
        if self._lines is None:
            self._lines = deque(maxlen=_LINES)
        self._lines.append(line)

    @property
    def text(self) -> str | None:
        """All of them, if there are any."""
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
    """From now on. May be called again."""
    logging.getLogger().addHandler(_CAPTURE_HANDLER)


def start_log_capture(job_id: UUID, attempt: int) -> LogCapture:
    """Of the attempt that begins in this context: its tasks and threads must be started from it."""
    log_capture = LogCapture(job_id, attempt)
    _LOG_CAPTURE.set(log_capture)
    return log_capture


def find_tasks(log_capture: LogCapture) -> list[asyncio.Task[Any]]:
    """The tasks of this event loop that belong to the attempt. Looks at all there are."""
    return [task for task in asyncio.all_tasks() if log_capture is find_log_capture(task)]


def find_log_capture(task: asyncio.Task[Any]) -> LogCapture | None:
    """Of the attempt to which a task belongs, if it belongs to one."""
    # Task.get_context() is there from Python 3.12 on; before that the collector alone knows.
    for held in gc.get_referents(task):
        if isinstance(held, Context):
            return held.get(_LOG_CAPTURE)
    return None

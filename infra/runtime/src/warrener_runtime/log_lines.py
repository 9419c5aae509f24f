"""Where log lines go: one write each, and never an exception.

A log line is said from inside error handling. Where the terminal or the pipe behind it is gone, the line is
lost; if it raised, the loop that wanted to say what went wrong would end instead, and the service be deaf.
"""

import contextlib
from collections.abc import Callable
from typing import TextIO


class LogLineWriter:
    """What structlog writes to; the stream is looked up at each line, because others may replace it."""

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        """Write one line and flush it; it is lost where nobody can take it."""
        with contextlib.suppress(OSError, ValueError):  # a full disk, a broken pipe; a closed file
            stream = self._stream()
            stream.write(line + "\n")
            stream.flush()

    debug = info = warning = error = critical = exception = msg

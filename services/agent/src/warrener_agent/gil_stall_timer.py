"""The end of a process in which no thread of Python gets a turn any more.

A call into C that does not let go of the interpreter's lock (a regular expression that backtracks for ever)
stops every watcher that is written in Python and shares the process. So this is left to a small process
beside it, and to `faulthandler`, which needs no lock.
"""

import faulthandler
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final

from warrener_agent import gil_stall_watcher
from warrener_runtime.logs import get_logger

_log = get_logger("agent.seizure")

SIGNAL: Final = signal.SIGVTALRM
_STDERR: Final = 2
_RESTART: Final = 10.0
"""Seconds between two starts of the process beside."""


class GilStallTimer:
    """Ends the process by SIGVTALRM, with the stacks of all threads on standard error, if it was not put off
    before the deadline that was given last. The time in which the process is stopped does not count."""

    def __init__(self) -> None:
        self._watch: subprocess.Popen[bytes] | None = None
        self._started_at = -_RESTART

    def arm(self, deadline: float) -> None:
        """From now on. `deadline`: of `time.monotonic()`."""
        faulthandler.register(SIGNAL, _STDERR, chain=True)  # and then it ends, as by any unhandled signal
        self._start()
        self.extend(deadline)

    def extend(self, deadline: float) -> None:
        """Python runs."""
        watch = self._watch
        if watch is None or watch.stdin is None:
            return
        try:
            os.write(watch.stdin.fileno(), gil_stall_watcher.DEADLINE.pack(deadline))
        except BlockingIOError:  # the process beside is stopped
            pass
        except OSError:
            self._restart(deadline)

    def disarm(self) -> None:
        """May be called twice."""
        faulthandler.unregister(SIGNAL)
        self._close()

    def _start(self) -> None:
        self._started_at = time.monotonic()
        try:
            self._watch = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-I", "-S", gil_stall_watcher.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            _log.warning(
                "No process can be started beside the agent: a call into C that keeps the interpreter's lock "
                "will not be ended.",
                action="agent.no_seizure_watch",
                error=str(error),
            )
            return
        assert self._watch.stdin is not None
        os.set_blocking(self._watch.stdin.fileno(), False)

    def _restart(self, deadline: float) -> None:
        """The process beside was killed."""
        if time.monotonic() - self._started_at > _RESTART:
            self._close()
            self._start()
            self.extend(deadline)

    def _close(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None and watch.stdin is not None:
            with suppress(OSError):
                watch.stdin.close()
            watch.wait()

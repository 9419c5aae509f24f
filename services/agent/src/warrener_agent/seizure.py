"""The end of a process in which no thread of Python gets a turn any more.

A call into C that computes without letting go of the interpreter's lock (a regular expression that
backtracks for ever) stops every watcher that is written in Python. So this is left to the kernel, which
counts the processor time of the process, and to `faulthandler`, which needs no lock.
"""

import faulthandler
import os
import signal
from typing import Final

SIGNAL: Final = signal.SIGVTALRM
_STDERR: Final = 2


class SeizureAlarm:
    """Ends the process by SIGVTALRM, with the stacks of all threads on standard error, once it has computed
    for `seconds` on every processor of the machine since it was put off last.

    So much is never used in less time than that, however many threads work beside; and a process that is
    frozen, or waits, uses none.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds * (os.cpu_count() or 1)

    def arm(self) -> None:
        """From now on."""
        faulthandler.register(SIGNAL, _STDERR, chain=True)  # and then it ends, as by any unhandled signal
        self.put_off()

    def put_off(self) -> None:
        """Python runs."""
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds)

    def disarm(self) -> None:
        """May be called twice."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        faulthandler.unregister(SIGNAL)

"""A process beside the agent that ends the agent when none of its Python threads runs.

`GilStallTimer` runs it as a script, with the standard library alone. Standard input carries deadlines:
doubles of `time.monotonic()`, which all processes of a host share. Its end of file is the end of the agent.
"""

import os
import select
import signal
import struct
import sys
import time
from contextlib import suppress

DEADLINE = struct.Struct("=d")
_PERIOD = 0.1  # seconds between two checks of an agent that sends nothing
_AFTER_FREEZE = 1.0  # seconds that an agent has to send a deadline after it, or this process, was stopped
_STACKS = 0.5  # seconds that writing the stacks may take
_QUIET = 1.0
"""Seconds without a deadline after which the time that the agent waits for a processor is measured."""
_SEIZED = 0.5
"""Seconds of processor time without a voluntary switch, from which a thread holds the interpreter's lock in a
call into C. A thread of Python waits for the next holder after 5 ms (`sys.setswitchinterval`)."""


class ProcessorWait:
    """Measures for how long a process has been ready to run and was not run: the longest wait of a thread, or
    that of its whole control group. Linux alone shows it; elsewhere it is 0."""

    def __init__(self, pid: int, observer: int = 0) -> None:
        """`observer`: the native id of the thread that calls, which always runs when it looks."""
        self._tasks, self._observer, self._pressure = f"/proc/{pid}/task", str(observer), _pressure_file(pid)
        self._began = self._at = time.monotonic()
        self.computed = 0.0
        """Seconds for which a thread has run without waiting for anything, at most."""
        self._computing: dict[str, tuple[bytes, float]] = {}
        self._threads, self._stalled_before = self._read_threads(), self._stalled()
        self._waited = self._total = 0.0

    def seconds(self) -> float:
        """Return the seconds since the last call."""
        threads, now, total = self._read_threads(), time.monotonic(), self._total
        elapsed, longest = now - self._at, 0.0
        for thread, (ready, ran, waited) in threads.items():
            was_ready, ran_before, waited_before = self._threads.get(thread, (False, ran, waited))
            # The kernel adds a wait when it is over, and some last for longer than a lease.
            wait = elapsed - (ran - ran_before) if ready and was_ready else waited - waited_before
            longest = max(longest, wait)
        self._threads, self._at, self._waited = threads, now, self._waited + longest
        self._total = max(total, self._waited, self._stalled() - self._stalled_before)
        return self._total - total

    @property
    def share(self) -> float:
        """The share of the time since the beginning."""
        return self._total / max(self._at - self._began, 1e-9)

    def _read_threads(self) -> dict[str, tuple[bool, float, float]]:
        """Return of each thread whether it could run, and the seconds for which it ran and waited."""
        found: dict[str, tuple[bool, float, float]] = {}
        with suppress(OSError):
            for thread in os.listdir(self._tasks):  # noqa: PTH208 - as below
                with suppress(OSError, ValueError):  # it has ended
                    ran, waited, _ = _read(f"{self._tasks}/{thread}/schedstat").split()
                    ready = thread != self._observer and _state(f"{self._tasks}/{thread}") == b"R"
                    found[thread] = ready, int(ran) / 1e9, int(waited) / 1e9
                    self._note_computing(thread, int(ran) / 1e9)
        return found

    def _note_computing(self, thread: str, ran: float) -> None:
        switches = (
            _read(f"{self._tasks}/{thread}/status").partition(b"\nvoluntary_ctxt_switches:")[2].split()[0]
        )
        before, since = self._computing.get(thread, (switches, ran))
        self._computing[thread] = (switches, since if switches == before else ran)
        self.computed = max(self.computed, ran - self._computing[thread][1])

    def _stalled(self) -> float:
        """Return the seconds for which all that could run in the control group waited."""
        with suppress(OSError, ValueError):
            return int(_read(self._pressure).partition(b"full")[2].partition(b"total=")[2]) / 1e6
        return 0.0


def _pressure_file(pid: int) -> str:
    with suppress(OSError):
        groups = _read(f"/proc/{pid}/cgroup").decode().splitlines()
        path = next((line[3:] for line in groups if line.startswith("0::")), "")
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            if path and os.path.exists(file := f"{root}{path}/cpu.pressure"):  # noqa: PTH110 - as below
                return file
    return ""


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs the process 3 MB
        return file.read()


def _state(folder: str) -> bytes:
    return _read(f"{folder}/stat").rpartition(b")")[2].split()[0]


def end_time(deadline: float, owed: float, computed: float) -> float:
    """Return when the agent ends. The processor time that it is owed moves the deadline of an agent that only
    waits; one whose lock is held by a call that computes would outlive its leases by it."""
    return deadline if computed > _SEIZED else deadline + owed


def main() -> None:
    """Watch the parent until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    agent, deadline, end_at, patient_until = os.getppid(), None, 0.0, 0.0
    received_at, owed, wait = time.monotonic(), 0.0, None
    while True:
        began = time.monotonic()
        if select.select([sys.stdin.fileno()], [], [], _PERIOD)[0]:
            received = os.read(sys.stdin.fileno(), 512 * DEADLINE.size)
            if not received:
                return
            (deadline,) = DEADLINE.unpack(received[-DEADLINE.size :])
            received_at, end_at, owed, wait = time.monotonic(), deadline, 0.0, None
            continue
        now = time.monotonic()
        if deadline is not None and now - received_at > _QUIET:
            wait = wait or ProcessorWait(agent)
            owed += wait.seconds()
            end_at = end_time(deadline, owed, wait.computed)
        if is_stopped(agent) or now - began > _AFTER_FREEZE:
            patient_until = now + _AFTER_FREEZE
        elif os.getppid() != agent:
            return
        elif deadline is not None and now >= max(end_at, patient_until):
            end(agent)
            return


def is_stopped(pid: int) -> bool:
    """True if a signal or a debugger has stopped the process, so that it computes nothing."""
    with suppress(OSError):
        return _state(f"/proc/{pid}") in {b"T", b"t"}
    return False


def end(agent: int) -> None:
    """Let the agent write its stacks, which needs no interpreter, and die of that signal; else kill it."""
    for number, patience in ((signal.SIGVTALRM, _STACKS), (signal.SIGKILL, _STACKS)):
        if os.getppid() != agent:
            return
        os.kill(agent, number)
        until = time.monotonic() + patience
        while os.getppid() == agent and time.monotonic() < until:
            time.sleep(0.01)


if __name__ == "__main__":
    main()

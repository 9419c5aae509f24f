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

DEADLINE = struct.Struct("=d")
_PERIOD = 0.1
"""Seconds between two checks of an agent that sends nothing."""
_AFTER_FREEZE = 1.0
"""Seconds that an agent has to send a deadline after it, or this process, was stopped."""
_STACKS = 0.5
"""Seconds that writing the stacks may take."""


def main() -> None:
    """Watch the parent until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    agent, deadline, patient_until = os.getppid(), None, 0.0
    while True:
        began = time.monotonic()
        if select.select([sys.stdin.fileno()], [], [], _PERIOD)[0]:
            received = os.read(sys.stdin.fileno(), 512 * DEADLINE.size)
            if not received:
                return
            (deadline,) = DEADLINE.unpack(received[-DEADLINE.size :])
            continue
        now = time.monotonic()
        if is_stopped(agent) or now - began > _AFTER_FREEZE:
            patient_until = now + _AFTER_FREEZE
        elif os.getppid() != agent:
            return
        elif deadline is not None and now >= max(deadline, patient_until):
            end(agent)
            return


def is_stopped(pid: int) -> bool:
    """True if a signal or a debugger has stopped the process, so that it computes nothing."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib costs it 3 MB
            return file.read().rpartition(b")")[2].split()[0] in {b"T", b"t"}
    except OSError:
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

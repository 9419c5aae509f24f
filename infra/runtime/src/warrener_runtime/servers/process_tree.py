"""A process and all that descend from it, read from /proc.

Process groups are not enough: each backend of PostgreSQL leads a session of its own.
"""

import contextlib
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")
_STOPPED = frozenset("TtZX")  # states of a thread that does not run: stopped, traced, ended
_STOPS_WITHIN = 5.0  # seconds; one that waits for a disk stops when the disk answers
_POLL = 0.001


def descendants(root: int) -> list[int]:
    """The ids of all processes below `root`, parents before their children."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (parent := _parent_of(entry)) is not None:
            children[parent].append(int(entry.name))
    found: list[int] = []
    pending = [root]
    while pending:
        born = children[pending.pop(0)]
        found += born
        pending += born
    return found


def signal_descendants(root: int, number: signal.Signals) -> None:
    """Send a signal to all processes below `root`; one that is gone is no error."""
    for pid in descendants(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def pause_descendants(root: int) -> None:
    """SIGSTOP all processes below `root`, and return when all of their threads have stopped.

    The kernel only notes the signal before `kill` returns: a thread on another processor goes on until it is
    interrupted, and a server with several of them may still answer. Raises TimeoutError if some thread runs
    for more than 5 s, as one does that waits for a disk.
    """
    deadline = time.monotonic() + _STOPS_WITHIN
    while running := [pid for pid in descendants(root) if not _has_stopped(pid)]:
        signal_descendants(root, signal.SIGSTOP)  # each time: a child may have been forked since
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"expected the processes {running} to stop within {_STOPS_WITHIN:g} s, got none of it"
            )
        time.sleep(_POLL)


def kill_descendants(root: int) -> None:
    """SIGKILL all processes below `root`, those too that are born meanwhile."""
    signal_descendants(root, signal.SIGSTOP)  # a stopped process has no more children
    signal_descendants(root, signal.SIGKILL)


def _has_stopped(pid: int) -> bool:
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return True  # it ended while we looked
    states = (_state_and_parent(thread) for thread in threads)
    return all(state is None or state[0] in _STOPPED for state in states)


def _parent_of(entry: Path) -> int | None:
    state = _state_and_parent(entry)
    return None if state is None or state[0] == "Z" else state[1]


def _state_and_parent(entry: Path) -> tuple[str, int] | None:
    """Of a process or a thread; None if it ended while we looked."""
    try:
        stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # pid (name) state ppid ...: the name may hold spaces and brackets, so count from its end.
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)

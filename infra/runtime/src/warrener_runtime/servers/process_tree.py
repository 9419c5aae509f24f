"""A process and all that descend from it, read from /proc.

Process groups are not enough: each backend of PostgreSQL leads a session of its own.
"""

import contextlib
import os
import signal
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")


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


def kill_descendants(root: int) -> None:
    """SIGKILL all processes below `root`, those too that are born meanwhile."""
    signal_descendants(root, signal.SIGSTOP)  # a stopped process has no more children
    signal_descendants(root, signal.SIGKILL)


def _parent_of(entry: Path) -> int | None:
    try:
        stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # it ended while we looked
    # pid (name) state ppid ...: the name may hold spaces and brackets, so count from its end.
    state, parent = stat.rpartition(")")[2].split()[:2]
    return None if state == "Z" else int(parent)

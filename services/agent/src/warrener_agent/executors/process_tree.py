"""A process and its descendants, as Linux lists them in /proc.

On other systems only the process itself is seen, and its group is killed.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of some processes together."""

    processes: int = 0
    threads: int = 0
    memory: int = 0  # bytes; shared memory is counted for each
    cpu_seconds: float = 0.0  # with their children that have ended


def tree(root: int) -> list[int]:
    """Return the process and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def usage(pids: Sequence[int]) -> Usage:
    """Return their usage now; a process that has ended uses nothing."""
    seen = list(_stats(pids))
    return Usage(
        processes=len(seen),
        threads=sum(int(one[17]) for one in seen),
        memory=sum(int(one[21]) for one in seen) * _PAGE,
        cpu_seconds=sum(sum(map(int, one[11:15])) for one in seen) / _TICK,
    )


def thread_seconds(native_id: int | None) -> float | None:
    """Return the processor time of one thread of this process, if it can be known."""
    with suppress(OSError):
        fields = _after_name((_PROC / "self" / "task" / str(native_id) / "stat").read_text())
        return (int(fields[11]) + int(fields[12])) / _TICK
    return None


def own_memory(pids: Sequence[int]) -> int:
    """Return the bytes that they use, with shared memory counted once. Slower than `usage`."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def open_files(pids: Sequence[int]) -> int:
    """Return how many files, sockets and pipes they hold open."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
    return total


def kill_tree(root: int) -> None:
    """Kill the process, its group and its descendants, in whatever session those are."""
    frozen = _freeze(root, but=frozenset())
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)
    for pid in frozen - {root}:
        _send(pid, signal.SIGKILL)


def kill_below(root: int) -> None:
    """Kill the descendants of the process, and not the process itself."""
    for pid in _freeze(root, but=frozenset({root})):
        _send(pid, signal.SIGKILL)


def _freeze(root: int, *, but: frozenset[int]) -> set[int]:
    """Stop them until no new one is found, so that a process that forks quickly cannot escape."""
    frozen: set[int] = set()
    while new := set(tree(root)) - frozen - but:
        for pid in new:
            _send(pid, signal.SIGSTOP)
        frozen |= new
    return frozen


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _parents() -> Iterator[tuple[int, int]]:
    """Yield each process of the machine with its parent: not every kernel lists the children of one."""
    with suppress(OSError):
        for entry in os.scandir(_PROC):
            if entry.name.isdigit():
                with suppress(OSError):
                    yield int(entry.name), int(_fields(int(entry.name))[1])


def _fields(pid: int) -> list[str]:
    return _after_name((_PROC / str(pid) / "stat").read_text())


def _after_name(stat: str) -> list[str]:
    """Return the fields after the name, which may hold blanks and brackets itself."""
    return stat.rpartition(")")[2].split()


def _stats(pids: Sequence[int]) -> Iterator[list[str]]:
    for pid in pids:
        with suppress(OSError):
            fields = _fields(pid)
            if fields[0] not in {"Z", "X"}:
                yield fields

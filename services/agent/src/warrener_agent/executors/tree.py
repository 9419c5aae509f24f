"""A process and all that it has started, by what Linux says of them in /proc. Elsewhere only the process
itself is seen, and its group is killed."""

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
    """What some processes use together."""

    processes: int = 0
    threads: int = 0
    memory: int = 0  # bytes; what they share is counted for each
    cpu_seconds: float = 0.0  # with those of theirs that have ended


def tree(root: int) -> list[int]:
    """The process and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def usage(pids: Sequence[int]) -> Usage:
    """What they use now; who has ended meanwhile uses nothing."""
    seen = list(_stats(pids))
    return Usage(
        processes=len(seen),
        threads=sum(int(one[17]) for one in seen),
        memory=sum(int(one[21]) for one in seen) * _PAGE,
        cpu_seconds=sum(sum(map(int, one[11:15])) for one in seen) / _TICK,
    )


def thread_seconds(native_id: int | None) -> float | None:
    """What one thread of this process has used of a processor, if that can be known."""
    with suppress(OSError):
        fields = _after_name((_PROC / "self" / "task" / str(native_id) / "stat").read_text())
        return (int(fields[11]) + int(fields[12])) / _TICK
    return None


def own_memory(pids: Sequence[int]) -> int:
    """Bytes, with what several share counted once. Slower than `usage`."""
    return sum(_proportional(pid) for pid in pids)


def open_files(pids: Sequence[int]) -> int:
    """How many files, sockets and pipes they hold open."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
    return total


def kill_tree(root: int) -> None:
    """Kill the process, its group and its descendants, wherever those have gone."""
    frozen = _freeze(root, but=frozenset())
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)
    for pid in frozen - {root}:
        _send(pid, signal.SIGKILL)


def kill_below(root: int) -> None:
    """Kill the descendants of the process, and not itself."""
    for pid in _freeze(root, but=frozenset({root})):
        _send(pid, signal.SIGKILL)


def _freeze(root: int, *, but: frozenset[int]) -> set[int]:
    """Stop them until no new one is found: a process that forks as fast as it can is not outrun."""
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
    """Each process of the machine with its parent: not every kernel lists the children of one."""
    with suppress(OSError):
        for entry in os.scandir(_PROC):
            if entry.name.isdigit():
                with suppress(OSError):
                    yield int(entry.name), int(_fields(int(entry.name))[1])


def _fields(pid: int) -> list[str]:
    return _after_name((_PROC / str(pid) / "stat").read_text())


def _after_name(stat: str) -> list[str]:
    """The fields after the name, which may hold blanks and brackets itself."""
    return stat.rpartition(")")[2].split()


def _stats(pids: Sequence[int]) -> Iterator[list[str]]:
    for pid in pids:
        with suppress(OSError):
            fields = _fields(pid)
            if fields[0] not in {"Z", "X"}:
                yield fields


def _proportional(pid: int) -> int:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0

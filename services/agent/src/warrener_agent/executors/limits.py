"""The limits of an attempt's processes, which the agent checks, or the kernel where control groups exist."""

import asyncio
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from os import getpid
from pathlib import Path

from warrener_agent.decisions.errors import HandlerRaised, find_exceeded_limit
from warrener_agent.definitions.isolation import Limits
from warrener_agent.executors.process_tree import Usage, own_memory, usage
from warrener_runtime.cgroups import NoControlGroup, divide, own_group
from warrener_runtime.logs import get_logger

_log = get_logger("agent.cgroup")
_numbers = count(1)
_MEMORY = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
"""On Linux RLIMIT_DATA counts private memory. RLIMIT_AS counts unused addresses too, so that a program with
threads needs many times its memory."""
_REMOVAL_TIMEOUT = 1.0
"""Seconds for an empty group to be removed: the kernel takes a moment to forget what was killed."""
_CHECK_INTERVAL = 0.2  # seconds between two checks of an attempt's usage

Members = Callable[[], list[int]]  # finds the processes of an attempt


def kernel_limits(limits: Limits) -> list[tuple[int, int]]:
    """Return the limits that the kernel applies to a single process, by the kernel's numbers; not that of
    processor time, which counts from the start of the process."""
    values = (
        (_MEMORY, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
    )
    return [(name, value) for name, value in values if value is not None]


async def wait_until_exceeded(limits: Limits, members: Members) -> HandlerRaised:
    """Return the end of processes once they exceed a limit. Earlier processor time does not count."""
    before = (await asyncio.to_thread(_measure, limits, members)).cpu_seconds
    while True:
        await asyncio.sleep(_CHECK_INTERVAL)
        seen = await asyncio.to_thread(_measure, limits, members)
        exceeded = find_exceeded_limit(
            limits, memory=seen.memory, cpu_seconds=seen.cpu_seconds - before, processes=seen.processes
        )
        if exceeded is not None:
            return exceeded


def _measure(limits: Limits, members: Members) -> Usage:
    pids = members()
    seen = usage(pids)
    if limits.memory_bytes is None or seen.memory <= limits.memory_bytes:
        return seen
    # The cheap measure counts shared memory for each process; above the limit, measure exactly.
    return Usage(seen.processes, seen.threads, own_memory(pids) or seen.memory, seen.cpu_seconds)


class Cgroup:
    """A control group: the kernel limits the memory and processes of all members together, and can kill all
    of them at once, in whatever session they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def limit(self, limits: Limits) -> None:
        self._write("memory.max", limits.memory_bytes)
        self._write("memory.swap.max", None if limits.memory_bytes is None else 0)
        self._write("memory.oom.group", 1)
        # The kernel counts threads too; the agent checks the number of processes.
        self._write("pids.max", None if limits.processes is None else limits.processes * 64)

    def add(self, pid: int) -> None:
        """Add a process, and all that it starts from now on."""
        with suppress(ProcessLookupError):
            (self._folder / "cgroup.procs").write_text(str(pid))

    def members(self) -> list[int]:
        with suppress(OSError):
            return [int(pid) for pid in (self._folder / "cgroup.procs").read_text().split()]
        return []

    def oom_kills(self) -> int:
        """Return how often the kernel has killed in the group for lack of memory."""
        return _read_oom_kills(self._folder / "memory.events")

    def kill(self) -> None:
        with suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Remove the group once it is empty. Blocks for a moment."""
        until = time.monotonic() + _REMOVAL_TIMEOUT
        while self._folder.exists() and time.monotonic() < until:
            try:
                self._folder.rmdir()
            except OSError:
                time.sleep(0.01)

    def _write(self, name: str, value: int | None) -> None:
        file = self._folder / name
        if file.exists():  # else the machine has no controller for it
            file.write_text("max" if value is None else str(value))


def new_group() -> Cgroup | None:
    """Make a group for one executor; None if this machine has none to give."""
    parent = _parent()
    return None if parent is None else Cgroup(parent / f"executor-{getpid()}-{next(_numbers)}")


def kernel_oom_kills() -> int:
    """Return how often the kernel has killed for lack of memory, anywhere on this machine."""
    return _read_oom_kills(Path("/proc/vmstat"))


def _read_oom_kills(counters: Path) -> int:
    with suppress(OSError):
        for line in counters.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return 0


@cache
def _parent() -> Path | None:
    """The group that this agent divides. Determined and logged once."""
    try:
        parent = divide(own_group())
    except NoControlGroup as error:
        _log.info(
            "Attempts are limited by rlimits and periodic checks: no control group is available.",
            action="agent.isolation",
            reason=str(error),
        )
        return None
    _log.info("Attempts are limited by control groups.", action="agent.isolation", group=str(parent))
    return parent

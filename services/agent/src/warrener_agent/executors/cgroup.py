"""A control group for the processes of one executor, where the machine lets us make one."""

import time
from contextlib import suppress
from functools import cache
from itertools import count
from os import getpid
from pathlib import Path

from warrener_agent.isolation import Limits
from warrener_runtime.cgroups import NoControlGroup, divide, own_group
from warrener_runtime.logs import get_logger

_log = get_logger("agent.cgroup")
_numbers = count(1)
_UNTIL_EMPTY = 1.0  # seconds: the kernel takes a moment to forget what was killed


class Cgroup:
    """Memory and processes are limited by the kernel, together for all that is in it, and all of it can be
    killed at once, wherever it has gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def limit(self, limits: Limits) -> None:
        """From now on, for what is in it together."""
        self._write("memory.max", limits.memory_bytes)
        self._write("memory.swap.max", None if limits.memory_bytes is None else 0)
        self._write("memory.oom.group", 1)
        # Threads are counted too; the number of processes alone is watched by the agent.
        self._write("pids.max", None if limits.processes is None else limits.processes * 64)

    def add(self, pid: int) -> None:
        """This process, and all that it starts from now on."""
        with suppress(ProcessLookupError):
            (self._folder / "cgroup.procs").write_text(str(pid))

    def members(self) -> list[int]:
        """The processes in it."""
        with suppress(OSError):
            return [int(pid) for pid in (self._folder / "cgroup.procs").read_text().split()]
        return []

    def oom_kills(self) -> int:
        """How often the kernel has killed in it for want of memory."""
        with suppress(OSError):
            for line in (self._folder / "memory.events").read_text().splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill":
                    return int(number)
        return 0

    def kill(self) -> None:
        """All of it, at once."""
        with suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Once it is empty. Blocks for a moment."""
        until = time.monotonic() + _UNTIL_EMPTY
        while time.monotonic() < until:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)
            else:
                return

    def _write(self, name: str, value: int | None) -> None:
        file = self._folder / name
        if file.exists():  # else there is no controller for it
            file.write_text("max" if value is None else str(value))


def new_group() -> Cgroup | None:
    """A group of its own for one executor; None where there are no groups to be had."""
    parent = _parent()
    return None if parent is None else Cgroup(parent / f"executor-{getpid()}-{next(_numbers)}")


def kernel_oom_kills() -> int:
    """How often the kernel has killed for want of memory, anywhere on this machine."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


@cache
def _parent() -> Path | None:
    """The group that this agent divides. Found out once, and said."""
    try:
        parent = divide(own_group())
    except NoControlGroup as error:
        _log.info(
            "Attempts are limited by rlimits and by looking at them: there is no control group to be had.",
            action="agent.isolation",
            why=str(error),
        )
        return None
    _log.info("Attempts are limited by control groups.", action="agent.isolation", group=str(parent))
    return parent

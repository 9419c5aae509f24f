"""The sandbox of a child process, from inside: its kernel limits and its user.

The limits are soft and are lifted after the attempt, so that a warm child can be used again and can
always report how the attempt ended. The agent checks the usage of several processes together.
"""

import ctypes
import math
import os
import resource
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from warrener_agent.executors.cpu_timer import rlimit_cpu_used, signal_after

_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
MEMORY: Final = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
"""On Linux RLIMIT_DATA counts private memory. RLIMIT_AS counts unused addresses too, so that a program with
threads needs many times its memory."""


def kernel_limits(limits: Mapping[str, Any], cpu_seconds: int | None) -> dict[int, int]:
    """Return the limits by the kernel's names. `cpu_seconds`: RLIMIT_CPU, which counts from the start of the
    process."""
    values = {
        MEMORY: limits.get("memory"),
        resource.RLIMIT_NOFILE: limits.get("open_files"),
        resource.RLIMIT_FSIZE: limits.get("file_size"),
        resource.RLIMIT_CPU: cpu_seconds,
    }
    return {name: int(value) for name, value in values.items() if value is not None}


def rlimit_cpu(seconds: float, used: float = 0.0, *, exact: bool = False) -> int:
    """Return the RLIMIT_CPU for a process that may use `seconds` more than `used`.

    Where the kernel counts ticks it is the last resort, for a process whose agent cannot check: twice the
    time, for ticks may run ahead. `exact`: it does not count ticks.
    """
    return math.ceil(used + seconds) if exact else math.ceil(used + 2 * seconds) + 1


@contextmanager
def apply_limits(limits: Mapping[str, Any]) -> Generator[None]:
    """Apply the limits to this process."""
    cpu: float | None = limits.get("cpu")
    with signal_after(cpu) as timed:
        cpu_seconds = None if cpu is None else rlimit_cpu(cpu, rlimit_cpu_used(), exact=not timed)
        before = {
            name: _lower_soft_limit(name, value) for name, value in kernel_limits(limits, cpu_seconds).items()
        }
        try:
            yield
        finally:
            for name, soft in before.items():
                resource.setrlimit(name, (soft, resource.getrlimit(name)[1]))


def prepare() -> None:
    """Prepare a child for its first attempt: it adopts orphans of its descendants, and dumps no core."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def switch_user(user: Sequence[int] | None, umask: int | None) -> None:
    """Change the user and the umask of this process for good, before a handler's modules are imported."""
    if umask is not None:
        os.umask(umask)
    if user is not None:
        uid, gid = user
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def has_children() -> bool:
    """True if a process that an attempt started still exists."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def memory() -> int:
    """Return the bytes that this process holds now."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - read after each attempt
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:  # not Linux: the maximum that it ever held
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _lower_soft_limit(name: int, value: int) -> int:
    soft, hard = resource.getrlimit(name)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(name, (most, hard))
    return soft

"""In a child process: what one attempt may use, held by the kernel while it runs.

The limits are soft and are lifted after the attempt, so that a warm child can be used again and can always
tell how it went. What several processes use together is watched by the agent.
"""

import ctypes
import math
import os
import resource
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
MEMORY: Final = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
"""Linux counts in RLIMIT_DATA what a process has for itself alone; RLIMIT_AS counts addresses that nobody
uses too, so that a program with threads needs many times its memory."""


def kernel_limits(limits: Mapping[str, Any], cpu_used: float) -> dict[int, int]:
    """What the kernel is told, by its own names. `cpu_used` is what the process has used before."""
    values = {
        MEMORY: limits.get("memory"),
        resource.RLIMIT_NOFILE: limits.get("open_files"),
        resource.RLIMIT_FSIZE: limits.get("file_size"),
    }
    if limits.get("cpu") is not None:
        values[resource.RLIMIT_CPU] = math.ceil(cpu_used + limits["cpu"])
    return {name: int(value) for name, value in values.items() if value is not None}


@contextmanager
def apply_limits(limits: Mapping[str, Any]) -> Generator[None]:
    """Hold this process to its limits."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    before = {
        name: _lower_soft_limit(name, value)
        for name, value in kernel_limits(limits, used.ru_utime + used.ru_stime).items()
    }
    try:
        yield
    finally:
        for name, soft in before.items():
            resource.setrlimit(name, (soft, resource.getrlimit(name)[1]))


def prepare() -> None:
    """Once, before the first attempt: whatever is started below stays below, and no core is dumped."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def switch_user(user: Sequence[int] | None, umask: int | None) -> None:
    """Be somebody else from now on, for good: before anything of a handler is imported."""
    if umask is not None:
        os.umask(umask)
    if user is not None:
        uid, gid = user
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def has_children() -> bool:
    """Whether something that an attempt has started is still there."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def memory() -> int:
    """Bytes that this process holds now."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - asked after each attempt
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:  # not Linux: the most that it ever held
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _lower_soft_limit(name: int, value: int) -> int:
    soft, hard = resource.getrlimit(name)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(name, (most, hard))
    return soft

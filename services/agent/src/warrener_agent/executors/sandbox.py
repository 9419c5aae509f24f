"""The sandbox of a child process, from inside: its kernel limits.

The limits are soft and are lifted after the attempt, so that a warm child can be used again and can
always report how the attempt ended. The agent checks the usage of several processes together.
"""

import ctypes
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from typing import Any

from warrener_agent.executors.program_supervisor import adopt_orphans, cap_limit


def rlimit_cpu(seconds: float, used: float = 0.0, *, exact: bool = False) -> int:
    """Return the RLIMIT_CPU for a process that may use `seconds` more than `used`.

    Where the kernel counts ticks it is the last resort, for a process whose agent cannot check: twice the
    time, for ticks may run ahead. `exact`: it does not count ticks.
    """
    return math.ceil(used + seconds) if exact else math.ceil(used + 2 * seconds) + 1


@contextmanager
def apply_limits(limits: Iterable[tuple[int, int]], cpu: float | None) -> Generator[None]:
    """Apply the limits to this process: those of the kernel by number, and seconds of processor time."""
    with _signal_after(cpu) as timed:
        if cpu is not None:
            limits = [*limits, (resource.RLIMIT_CPU, rlimit_cpu(cpu, _rlimit_cpu_used(), exact=not timed))]
        before: dict[int, int] = {}
        try:
            for name, value in limits:
                before[name], hard = resource.getrlimit(name)
                resource.setrlimit(name, (cap_limit(name, value), hard))
            yield
        finally:
            for name, soft in before.items():
                resource.setrlimit(name, (soft, resource.getrlimit(name)[1]))


def prepare() -> None:
    """Prepare a child for its first attempt: it adopts orphans of its descendants, and dumps no core."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    adopt_orphans()


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


# -- processor time ----------------------------------------------------------------------------------------
# Linux has two measures. The scheduler's is exact. The other counts ticks of some milliseconds for the
# process that runs when the tick comes: on a busy machine it may say three times as much, or a tenth.
# `RLIMIT_CPU` is held against ticks, so it alone would kill a handler that has used less than it may.

_TICK_CLOCK = -8  # (~0 << 3) | CPUCLOCK_PROF: the calling process, counted in ticks
_CLOCK_PROCESS_CPUTIME_ID = 2


class _SignalEvent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("number", ctypes.c_int),
        ("notify", ctypes.c_int),  # 0: SIGEV_SIGNAL
        ("unused", ctypes.c_char * 64),
    )


class _TimerSpec(ctypes.Structure):
    _fields_ = (
        ("interval_seconds", ctypes.c_long),
        ("interval_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


def _rlimit_cpu_used() -> float:
    """Return the seconds that this process has used by the clock that `RLIMIT_CPU` is held against."""
    if sys.platform == "linux":
        return time.clock_gettime(_TICK_CLOCK)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def _signal_after(seconds: float | None) -> Generator[bool]:
    """Send SIGXCPU to this process when it has used so much more processor time, but not after the block.

    Yields False where there is no such timer, or nothing to limit.
    """
    library = _find_timers()
    if library is None or seconds is None:
        yield False
        return
    timer, event = ctypes.c_void_p(), _SignalEvent(number=signal.SIGXCPU)
    if library.timer_create(_CLOCK_PROCESS_CPUTIME_ID, ctypes.byref(event), ctypes.byref(timer)):
        yield False
        return
    try:
        whole, rest = divmod(seconds, 1)
        spec = _TimerSpec(seconds=int(whole), nanoseconds=max(1, int(rest * 1e9)))
        yield library.timer_settime(timer, 0, ctypes.byref(spec), None) == 0
    finally:
        library.timer_delete(timer)


@cache
def _find_timers() -> Any:
    """Return the C library's functions of timers, which Python does not have; None if it has none."""
    if sys.platform != "linux":
        return None
    for name in (None, "librt.so.1"):
        try:
            library = ctypes.CDLL(name)
            library.timer_delete.argtypes = (ctypes.c_void_p,)
            library.timer_settime.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
            library.timer_create.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        except (OSError, AttributeError):
            continue
        return library
    return None

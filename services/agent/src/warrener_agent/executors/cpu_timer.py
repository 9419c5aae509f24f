"""Processor time of this process: what it has used, by which clock, and a signal once it has used so much.

Linux has two measures. The scheduler's is exact. The other counts ticks of some milliseconds for the process
that runs when the tick comes: on a busy machine it may say three times as much, or a tenth. `RLIMIT_CPU` is
held against ticks, so it alone would kill a handler that has used less than it may.
"""

import ctypes
import resource
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

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


def rlimit_cpu_used() -> float:
    """Return the seconds that this process has used by the clock that `RLIMIT_CPU` is held against."""
    if sys.platform == "linux":
        return time.clock_gettime(_TICK_CLOCK)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def signal_after(seconds: float | None) -> Generator[bool]:
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

"""The sandbox of an attempt's process: its kernel limits, its user and its environment.

A child's limits are soft and are lifted after the attempt, so that a warm child can be used again and can
always report how the attempt ended. The agent checks the usage of several processes together.
"""

import ctypes
import math
import os
import pwd
import re
import resource
import sys
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
MEMORY: Final = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
"""On Linux RLIMIT_DATA counts private memory. RLIMIT_AS counts unused addresses too, so that a program with
threads needs many times its memory."""

_SECRET_NAMES = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|TOKENS?(?:_|\d|$)"
    r"|(?:API|ACCESS|AUTH|ACCOUNT|SIGNING|MASTER|PRIVATE)_?KEY"
    r"|(?:^|_)(?:PWD|PASS|KEY|AUTH|DSN|PAT)$",
    re.IGNORECASE,
)
_HARMLESS = frozenset({"PWD", "OLDPWD"})  # folders
_URL_WITH_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def kernel_limits(limits: Mapping[str, Any], cpu_used: float) -> dict[int, int]:
    """Return the limits by the kernel's names. `cpu_used`: seconds that the process has used before."""
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
    """Apply the limits to this process."""
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


class UserUnavailable(Exception):
    """The job type's user cannot be used here; the message says why."""


@dataclass(frozen=True, slots=True)
class SystemUser:
    """An entry of the machine's users."""

    name: str
    uid: int
    gid: int
    home: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a login would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def resolve_user(name: str | None) -> SystemUser | None:
    """Return the user called `name`; None for none, or for the agent's own.

    Raises UserUnavailable: to go on as the agent's user would give the handler more rights than declared.
    """
    if name is None:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UserUnavailable(f"expected a user {name} on this machine, found none: create it") from None
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise UserUnavailable(
            f"expected to be root to run as {name}, the agent runs as user {os.geteuid()}: start the agent "
            f"as root or as {name}, or leave `user` out"
        )
    return SystemUser(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def filter_environment(environment: Mapping[str, str], named: Collection[str]) -> dict[str, str]:
    """Return the variables that are no secrets by name or value, and those in `named`."""
    return {
        name: value for name, value in environment.items() if name in named or not _looks_secret(name, value)
    }


def _looks_secret(name: str, value: str) -> bool:
    if _URL_WITH_PASSWORD.search(value):
        return True
    return name not in _HARMLESS and _SECRET_NAMES.search(name) is not None

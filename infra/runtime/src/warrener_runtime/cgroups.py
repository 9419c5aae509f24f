"""The control group (Linux, version 2) that this process may divide among the processes that it starts."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

CONTROLLERS: Final = frozenset({"memory", "pids"})
_LEAF: Final = "itself"


class NoControlGroup(Exception):
    """No control group can be divided by this process; the message has the reason."""


def own_group(proc: Path = Path("/proc")) -> Path:
    """Find the folder of this process's group. Raises NoControlGroup."""
    try:
        mounts = (proc / "self/mountinfo").read_text().splitlines()
        groups = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        raise NoControlGroup("this is no Linux") from None
    for line in mounts:
        mounted, _, kind = line.partition(" - ")
        if kind.split()[0] == "cgroup2":
            _, _, _, root, point, *_ = mounted.split()
            path = next((one[3:] for one in groups if one.startswith("0::")), "/")
            return Path(point) / path.removeprefix(root.rstrip("/")).lstrip("/")
    raise NoControlGroup("no control groups of version 2 are mounted")


def divisible(group: Path) -> bool:
    """True if this process can divide `group` as it is. Changes nothing. Raises NoControlGroup if it never
    can."""
    offered = _words(group / "cgroup.controllers")
    if missing := CONTROLLERS - offered:
        raise NoControlGroup(f"{group} has no controller for {' and '.join(sorted(missing))}")
    for needed in (group, group / "cgroup.procs", group / "cgroup.subtree_control"):
        if not os.access(needed, os.W_OK):
            raise NoControlGroup(f"{needed} may not be written by user {os.geteuid()}")
    if _words(group / "cgroup.subtree_control") >= CONTROLLERS:
        return True
    others = _words(group / "cgroup.procs") - {str(os.getpid()), "0"}
    if others:
        raise NoControlGroup(
            f"{group} holds {len(others)} processes of others; give the service one of its own"
        )
    return False


def divide(group: Path) -> Path:
    """Make `group` ready for groups below it, and return it. Raises NoControlGroup.

    A group with processes cannot be divided, so this process moves into a leaf of it.
    """
    if divisible(group):
        return group
    try:
        leaf = group / _LEAF
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in sorted(CONTROLLERS)))
    except OSError as error:
        with suppress(OSError):
            (group / "cgroup.procs").write_text(str(os.getpid()))
        raise NoControlGroup(f"{group} cannot be divided: {error}") from error
    return group


def _words(file: Path) -> set[str]:
    try:
        return set(file.read_text().split())
    except OSError as error:
        raise NoControlGroup(f"{file} cannot be read: {error.strerror}") from None

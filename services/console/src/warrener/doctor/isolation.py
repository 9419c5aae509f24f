"""Which limits this machine offers to the agents that run on it."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from warrener.doctor.finding import Finding, odd, well
from warrener_runtime.cgroups import NoControlGroup, divisible, own_group


def check_isolation(group: Callable[[], Path] = own_group) -> Iterator[Finding]:
    """How the processes of attempts are kept within their limits, and as whom they may run."""
    yield _limits(group)
    yield _users(os.geteuid())


def _limits(group: Callable[[], Path]) -> Finding:
    if sys.platform != "linux":
        return odd(
            "limits",
            "rlimits of single processes alone: what several use together is not seen",
            "run agents whose handlers need limits on Linux",
        )
    try:
        found = group()
        divisible(found)
    except NoControlGroup as error:
        return well(
            "limits", f"rlimits, and the agent's own look at its processes; no control group: {error}"
        )
    return well("limits", f"control group {found}, and rlimits")


def _users(uid: int) -> Finding:
    if uid == 0:
        return well("users", "handlers in processes may run as another user (`user=`)")
    return well("users", f"handlers run as user {uid} alone: only root may become another (`user=`)")

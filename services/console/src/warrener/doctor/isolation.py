"""Which limits this machine offers to the agents that run on it."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from warrener.doctor.check_result import CheckResult, ok, warning
from warrener_runtime.cgroups import NoControlGroup, divisible, own_group


def check_isolation(group: Callable[[], Path] = own_group) -> Iterator[CheckResult]:
    """How the processes of attempts are kept within their limits, and as whom they may run."""
    yield _limits(group)
    yield _users(os.geteuid())


def _limits(group: Callable[[], Path]) -> CheckResult:
    if sys.platform != "linux":
        return warning(
            "limits",
            "rlimits of single processes alone: what several use together is not seen",
            "run agents whose handlers need limits on Linux",
        )
    try:
        found = group()
        divisible(found)
    except NoControlGroup as error:
        return ok("limits", f"rlimits, and the agent's own look at its processes; no control group: {error}")
    return ok("limits", f"control group {found}, and rlimits")


def _users(uid: int) -> CheckResult:
    if uid == 0:
        return ok("users", "handlers in processes may run as another user (`user=`)")
    return ok("users", f"handlers run as user {uid} alone: only root may become another (`user=`)")

"""`python -m warrener.up.die_with_parent PARENT COMMAND…`: executes COMMAND, which dies with process PARENT.

A killed `up` cannot stop its services, so the kernel kills them; that is safe for every service (guarantee
G9). Linux only: elsewhere the services outlive a killed `up`.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Execute the command; never returns."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before prctl
            os._exit(1)
    os.execv(command[0], command)  # noqa: S606 - our own service


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""The process between us and a private server: `python -m warrener_devservers.guard`.

The guard starts the server's programs and stays until the last one, the server proper, has ended; then it
ends the others, and itself with the server's exit code. It holds the reading end of a pipe of the process
that started it: when that process dies in whatever way, the pipe closes, and the guard ends the server.

The guard leads a session of its own, so a Ctrl-C in the terminal reaches the starter, and not the server.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import types
from pathlib import Path

from warrener_devservers.process import GuardSpec, kill_descendants

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PARENT_CHECK_INTERVAL = 1.0  # seconds; a fork of our parent may hold the pipe open, so its id is checked too


def main() -> int:
    """Run the server that the first line of standard input describes; return its exit code."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans get us as their parent, so that we find and end them
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, _on_child_exit)
    spec = GuardSpec(**json.loads(sys.stdin.readline()))
    try:
        server = [_start(command, spec, libc) for command in spec.commands][-1]
        print(server.pid, flush=True)  # for signals
        return _wait_until_over(server, parent, woken)
    finally:
        kill_descendants(os.getpid())
        _reap()


def _start(command: list[str], spec: GuardSpec, libc: ctypes.CDLL) -> "subprocess.Popen[bytes]":
    def die_with_the_guard() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    with Path(spec.log).open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - a list of our own words, and no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=spec.folder,
            env=spec.environment,
            user=spec.user,
            group=spec.group,
            extra_groups=[] if spec.user else None,
            umask=0o077,  # another user of this machine reads no file of a server
            preexec_fn=die_with_the_guard,  # noqa: PLW1509 - this process has one thread
        )


def _wait_until_over(server: "subprocess.Popen[bytes]", parent: int, woken: int) -> int:
    """Wait until the server or our parent has ended; return the exit code."""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while server.poll() is None:
            for key, _ in selector.select(_PARENT_CHECK_INTERVAL):
                if key.fileobj is sys.stdin or not os.read(woken, 512):
                    return -signal.SIGKILL
            if os.getppid() != parent:
                return -signal.SIGKILL
    return server.returncode


def _reap() -> None:
    """Wait for all children, so that no zombie stays where no other process would reap it."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _on_child_exit(_number: int, _frame: types.FrameType | None) -> None:
    """Do nothing: the wake-up descriptor has woken the selector."""


if __name__ == "__main__":
    code = main()
    sys.exit(code if code >= 0 else 128 - code)

"""A supervisor between the agent and a program: `python -I -S program_supervisor.py REQUEST`.

The supervisor starts the program within its limits, adopts the orphans of the program, reports to the agent
how the program ended and what it used, and kills all of it when the agent is gone. It is a script that
imports the standard library alone, so that it starts in some milliseconds. REQUEST is JSON; see
`LaunchRequest`.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys

# os.execvp imports it after the change to a user who may not read the library of Python.
import warnings  # noqa: F401 # pyright: ignore[reportUnusedImport] - see above
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypedDict

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class LaunchRequest(TypedDict):
    """The agent's request. `limits` are numbers of the kernel with a soft and a hard value."""

    argv: list[str]
    cwd: str
    umask: int | None
    user: tuple[int, int] | None
    limits: list[tuple[int, int, int]]
    control: int


def main() -> NoReturn:
    request: LaunchRequest = json.loads(sys.argv[1])
    os.set_inheritable(request["control"], False)  # noqa: FBT003 - it takes no name
    adopt_orphans()
    resume_without_parent()
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    if not os.read(request["control"], 1):  # until the agent has put this process into the control group
        os._exit(1)
    program = _start(request)
    _redirect_streams_to_null()
    result = _watch(program, request["control"], woken)
    os.write(request["control"], json.dumps(result).encode() + b"\n")
    while os.read(request["control"], 1024):  # the agent kills this process, with its descendants
        pass
    _end(program)


def adopt_orphans() -> None:
    """Make this process the parent of descendants that lose theirs."""
    _prctl(_SUBREAPER, 1)


def resume_without_parent() -> None:
    """Have the kernel continue this process when the agent dies: an agent that is killed while it kills
    leaves this process stopped, so that it could not notice the end of the agent."""
    _prctl(_PARENT_DEATH_SIGNAL, signal.SIGCONT)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def cap_limit(limit: int, value: int) -> int:
    """Return `value`, or the hard limit of this process if that is lower."""
    hard = resource.getrlimit(limit)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def switch_user(user: Sequence[int] | None, umask: int | None) -> None:
    """Change the user and the umask of this process for good."""
    if umask is not None:
        os.umask(umask)
    if user is not None:
        uid, gid = user
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def _start(request: LaunchRequest) -> int:
    failed, fail = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        try:
            _exec_program(request)
        except BaseException as error:  # noqa: BLE001 - the agent must receive it, whatever it is
            os.write(fail, f"{type(error).__name__}: {error}".encode())
        os._exit(127)
    os.close(fail)
    why = os.read(failed, 4096)
    os.close(failed)
    if why:
        os.write(request["control"], json.dumps({"failed": why.decode(errors="replace")}).encode() + b"\n")
    return pid


def _exec_program(request: LaunchRequest) -> None:
    os.setpgid(0, 0)  # a signal to its own group must not reach the supervisor
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for limit, soft, hard in request["limits"]:
        most = cap_limit(limit, hard)
        resource.setrlimit(limit, (min(soft, most), most))
    switch_user(request["user"], request["umask"])
    os.chdir(request["cwd"])
    os.execvp(request["argv"][0], request["argv"])  # noqa: S606 - no shell is what is wanted


def _redirect_streams_to_null() -> None:
    """Let go of the program's streams, so that they end with the program."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _watch(program: int, control: int, woken: int) -> dict[str, Any]:
    """Wait for the program, and return how it ended."""
    while True:
        result = _reap(program)
        if result is not None:
            return result
        ready, _, _ = select.select([control, woken], [], [])
        if control in ready and not os.read(control, 1024):
            _end(program)
        if woken in ready:
            os.read(woken, 1024)


def _reap(program: int) -> dict[str, Any] | None:
    """Reap all processes that have ended; return the report if the program is among them."""
    with suppress(ChildProcessError):
        while True:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return None
            if pid == program:
                return {
                    "code": os.waitstatus_to_exitcode(status),
                    "cpu": used.ru_utime + used.ru_stime,
                    "memory": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
                }
    return None


def _end(program: int) -> NoReturn:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()

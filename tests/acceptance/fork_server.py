"""Service processes that are there at once: forked from a process that has imported their modules.

Starting Python and importing a service costs a second of processor time, and the acceptance tests start
hundreds of services. The fork server of multiprocessing imports all of them once (`forked_modules.py`) and is
forked for each start. Each service is then a process of its own, with its own environment, folder and
signals, and runs its module `__main__` from the first line.
"""

import atexit
import ctypes
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_READ_AT_START = ("PYTHON", "LD_", "OTEL_", "TZ", "MALLOC_", "GRPC_", "LANG", "LC_")
"""Prefixes of the variables that the interpreter or a library reads when it is started or imported."""
_IMPORTED_AT_START = ("sitecustomize", "usercustomize")
"""Modules by which a test changes a service from outside, before the service imports anything."""
_PR_SET_PDEATHSIG = 1
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.acceptance.forked_modules"])


def can_fork(environment: Mapping[str, str]) -> bool:
    """True if a process forked from one with our environment behaves as one started with this environment:
    what is read once, at a start or an import, is as ours, and no module changes the service from outside."""
    read_once = [
        name
        for name in environment.keys() | os.environ.keys()
        if name.startswith(_READ_AT_START) and name != "PYTHONPATH"
    ]
    if any(environment.get(name) != os.environ.get(name) for name in read_once):
        return False
    folders = [Path(folder) for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return not any((folder / f"{module}.py").exists() for folder in folders for module in _IMPORTED_AT_START)


@dataclass(frozen=True)
class Start:
    """A service to fork."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    out: str
    err: str
    """The files of its standard output and standard error; they may be one."""


class ForkedProcess:
    """A service that was forked. It is killed when the fork server ends, which ends with this process."""

    def __init__(self, module: str, request: Start) -> None:
        """Return when it has a process id and its output files are there."""
        for path in (request.out, request.err):
            Path(path).write_bytes(b"")
        self._process = _SERVER.Process(target=_run_service, args=(request, module))
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        """The exit code; None while it runs, -N after signal N."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal; an ended process is no error."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


RunningProcess = ForkedProcess | subprocess.Popen[bytes]


def kill_forked() -> None:
    """Kill what is left of all that was forked: this process waits for them when it ends."""
    for process in multiprocessing.active_children():
        process.kill()


def _run_service(request: Start, module: str) -> None:
    """Run the service in this process, as `python -m MODULE ARGUMENTS` would in a new one."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for standard, path in ((1, request.out), (2, request.err)):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, standard)
        os.close(file)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    searched = request.environment.get("PYTHONPATH", "").split(os.pathsep)
    ours = {str(ROOT), ""}
    sys.path[:] = [request.folder, *filter(None, searched), *(path for path in sys.path if path not in ours)]
    sys.argv[1:] = request.arguments
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:  # as the interpreter ends, which multiprocessing leaves out
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()

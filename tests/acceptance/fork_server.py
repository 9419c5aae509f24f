"""Service processes that are there at once: forked from a process that has imported their modules.

Starting Python and importing a service costs a second of processor time, and the acceptance tests start
hundreds of services. A fork server imports one service once and forks it for each start. Each service is then
a process of its own, with its own environment, folder and signals, and runs its module `__main__` from the
first line.
`python -m tests.acceptance.fork_server FD SERVICE` is the server's side.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, Protocol, Self

ROOT = Path(__file__).parents[2]
_READ_AT_START = ("PYTHON", "LD_", "OTEL_", "TZ", "MALLOC_", "GRPC_", "LANG", "LC_")
"""Prefixes of the variables that the interpreter or a library reads when it is started or imported."""
_IMPORTED_AT_START = ("sitecustomize", "usercustomize")
"""Modules by which a test changes a service from outside, before the service imports anything."""
_STORE = ("warrener_store.sqlite", "warrener_store.postgres")
_LOADED_LATE = {
    "warrener_scheduler": _STORE,
    "warrener_supervisor": _STORE,
    "warrener_agent": ("warrener_agent.ledger.sqlite", "warrener_agent.ledger.postgres"),
    "warrener": (
        "typer._adapters",
        "typer.rich_utils",
        "warrener.command.app",
        "warrener.explanations",
        "warrener.gathering",
        "warrener.operations.jobs",
        "warrener.command.job_page",
        "warrener.settings",
        "warrener.up.run",
        "warrener_client",
        "warrener_devservers",
        "warrener_store.migrations.migrator",
        *_STORE,
    ),
}
"""What each service, and the command, imports once it knows what it is to do."""
_LOADED_LATE_BY_ALL = (
    "uvloop",
    "warrener_runtime.bus.rabbitmq",
    "warrener_runtime.log_output",
    "warrener_runtime.telemetry.otlp",
)
_END_TIMEOUT = 30.0


class RunningProcess(Protocol):
    """The part of `subprocess.Popen` that tests use of a service."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | Any: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


def can_fork(environment: Mapping[str, str]) -> bool:
    """True if a process forked from one with our environment behaves as one started with this environment."""
    return not _changed_at_start(environment) and not _has_customization(environment)


def _changed_at_start(environment: Mapping[str, str]) -> bool:
    """True if a variable that is read once, at a start or an import, has another value than ours."""
    return any(
        environment.get(name) != os.environ.get(name)
        for name in environment.keys() | os.environ.keys()
        if name.startswith(_READ_AT_START) and name != "PYTHONPATH"
    )


def _has_customization(environment: Mapping[str, str]) -> bool:
    """True if a folder of PYTHONPATH has a module that Python imports before all others when it starts."""
    folders = [Path(folder) for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return any((folder / f"{module}.py").exists() for folder in folders for module in _IMPORTED_AT_START)


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
    """A service that a fork server started."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None
        """The exit code that was reported; -N after signal N."""

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        if self.returncode is None:
            self._server.collect(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._server.collect(left)
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


class ForkServer:
    """The process that forks one service. It kills what it forked when this process ends."""

    def __init__(self, module: str, loaded_late: Sequence[str] = ()) -> None:
        """Start it with `module` and the modules of `loaded_late` imported; `start` waits until they are."""
        self._lock = threading.RLock()
        self._running: dict[int, ForkedProcess] = {}  # the system gives a process id again after its end
        self._started: list[ForkedProcess] = []
        self._unread = b""
        self._control, other = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._control, selectors.EVENT_READ)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno()), module, *loaded_late],
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )

    def start(self, request: Start) -> ForkedProcess:
        """Fork the service; return when it has a process id and its output files are there."""
        for path in (request.out, request.err):
            Path(path).write_bytes(b"")
        with self._lock:
            self._control.sendall(json.dumps(asdict(request)).encode() + b"\n")
            while not self._started:
                self.collect(None)
            return self._started.pop()

    def collect(self, timeout: float | None) -> None:
        """Read what the server reports, waiting for a report up to `timeout` seconds."""
        with self._lock:
            if not self._selector.select(timeout):
                return
            received = self._control.recv(65536)
            if not received:
                raise RuntimeError(f"expected the fork server {self._process.args!r} to run, got its end")
            *lines, self._unread = (self._unread + received).split(b"\n")
            for line in lines:
                pid, code = json.loads(line)
                if code is None:
                    self._running[pid] = ForkedProcess(self, pid)
                    self._started.append(self._running[pid])
                else:
                    self._running.pop(pid).returncode = code

    def close(self) -> None:
        """End the server and what is left of its services."""
        self._selector.close()
        self._control.close()
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ForkServers:
    """A fork server for each service, started when the service is needed first."""

    def __init__(self) -> None:
        self._servers: dict[str, ForkServer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.close()

    def start(self, module: str, request: Start) -> ForkedProcess:
        """Fork the service of this module."""
        if module not in self._servers:
            self._servers[module] = ForkServer(module, (*_LOADED_LATE[module], *_LOADED_LATE_BY_ALL))
        return self._servers[module].start(request)


# -- the server's side ---------------------------------------------------------------------------------------


def main(descriptor: int, module: str, *loaded_late: str) -> None:
    """Import, fork what is requested, and report each end; in a forked process: run the service."""
    for name in (f"{module}.__main__", *loaded_late):
        importlib.import_module(name)
    del sys.modules[f"{module}.__main__"]  # each service runs it again, under the name __main__
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"expected one thread before a fork, got {threads}; an import has started one"
    gc.collect()
    gc.freeze()  # a collection in a forked process need not walk, and so copy, all that was imported here
    with socket.socket(fileno=descriptor) as control:
        request = _serve(control)
    _run_service(request, module)


def _serve(control: socket.socket) -> Start:
    """Fork for each request, until the tests end; return the request in each new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _interrupt)
    woken, wake = socket.socketpair()
    children: set[int] = set()
    with woken, wake, selectors.DefaultSelector() as selector, control.makefile("rb") as requests:
        wake.settimeout(0)
        woken.settimeout(0)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        selector.register(control, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4096)
                _report_ends(control, children)
            if control in ready:
                line = requests.readline()
                if not line:
                    for child in children:
                        os.kill(child, signal.SIGKILL)
                    os._exit(0)  # nothing is left to end in order
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    return Start(**json.loads(line))
                children.add(pid)
                control.sendall(json.dumps([pid, None]).encode() + b"\n")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the wake-up descriptor reports the signal."""


def _report_ends(control: socket.socket, children: set[int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        children.discard(pid)
        with suppress(BrokenPipeError):  # the tests have ended; so does the server, at its next look
            control.sendall(json.dumps([pid, os.waitstatus_to_exitcode(status)]).encode() + b"\n")


def _run_service(request: Start, module: str) -> None:
    """Run the service in this process, as `python -m MODULE ARGUMENTS` would in a new one."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        _end(end.code or 0)


def _end(code: int) -> None:
    """End this process as the interpreter does, but do not take its modules apart: that copies all
    of their pages, and is half of what a command costs here."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

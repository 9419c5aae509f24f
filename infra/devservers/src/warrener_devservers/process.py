"""A private server's processes: started under a guard, signalled and ended together, on ports of their
own."""

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

_LINES = 12

# Below the range of outgoing connections (32768 and up): there a client that dials a dead server's port can
# get that very port as its own, be connected to itself, and keep the server from coming back.
_FIRST = 10_000

_BLOCK = 10
_BLOCKS = 2_200
_reserved: set[int] = set()
_PROC = Path("/proc")
_STOPPED = frozenset("TtZX")  # states of a thread that does not run: stopped, traced, ended
_STOPS_WITHIN = 5.0  # seconds; one that waits for a disk stops when the disk answers
_STOP_POLL = 0.001
_GUARD_ENDS_WITHIN = 10.0  # seconds
_POLL = 0.02  # seconds; readiness can only be polled


class ServerError(Exception):
    """A private server could not carry out a request."""


class ServerMissing(ServerError):
    """The server's program is not installed; the text names the package that brings it."""


class ServerFailed(ServerError):
    """The server is installed, but did not start, stop or answer in time."""


def reserve_block(port: int, offsets: Sequence[int]) -> bool:
    """Reserve the block that begins at this port, as `free_block` does; False if a server or another process
    holds it."""
    block = (port - _FIRST) // _BLOCK
    return _are_free(port, offsets) and (block in _reserved or _reserve(block))


def free_block(offsets: Sequence[int]) -> int:
    """Find a port P such that P + offset is free for every offset (each below 10).

    A block stays reserved until this process ends: no other server takes it before this one is up or while it
    is down, in this process or in another. A free block is shared only if all are reserved.
    """
    shared: int | None = None
    for block in random.sample(range(_BLOCKS), _BLOCKS):
        port = _FIRST + block * _BLOCK
        if not _are_free(port, offsets):
            continue
        if block not in _reserved and _reserve(block):
            return port
        shared = port
    if shared is not None:
        return shared
    raise ServerFailed(
        f"expected a free block of ports between {_FIRST} and {_FIRST + _BLOCKS * _BLOCK}, got none; "
        "stop the servers that hold them"
    )


def _reserve(block: int) -> bool:
    """Lock the block's byte in a file that all processes of this user share; the lock ends with the
    process."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, block)
    except OSError:
        return False
    _reserved.add(block)
    return True


@cache
def _reservations() -> int:
    path = Path(tempfile.gettempdir()) / f"warrener-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _are_free(port: int, offsets: Sequence[int]) -> bool:
    return all(_is_free(port + offset) for offset in offsets)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one in TIME_WAIT is free to listen on
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def descendants(root: int) -> list[int]:
    """Find the ids of all processes below `root`, parents before their children."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (state := _state_and_parent(entry)) is not None and state[0] != "Z":
            children[state[1]].append(int(entry.name))
    found: list[int] = []
    pending = [root]
    while pending:
        born = children[pending.pop(0)]
        found += born
        pending += born
    return found


def signal_descendants(root: int, number: signal.Signals) -> None:
    """Send a signal to all processes below `root`; an ended process is no error."""
    for pid in descendants(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def pause_descendants(root: int) -> None:
    """SIGSTOP all processes below `root`, and return when all of their threads have stopped.

    The kernel only notes the signal before `kill` returns: a thread on another processor goes on until it is
    interrupted, and a server with several of them may still answer. Raises TimeoutError if some thread runs
    for more than 5 s, as one does that waits for a disk.
    """
    deadline = time.monotonic() + _STOPS_WITHIN
    while running := [pid for pid in descendants(root) if not _has_stopped(pid)]:
        signal_descendants(root, signal.SIGSTOP)  # each time: a child may have been forked since
        if time.monotonic() > deadline:
            wanted = f"expected the processes {running} to stop within {_STOPS_WITHIN:g} s"
            raise TimeoutError(f"{wanted}, got none of it")
        time.sleep(_STOP_POLL)


def kill_descendants(root: int) -> None:
    """SIGKILL all processes below `root`, including those that start meanwhile."""
    signal_descendants(root, signal.SIGSTOP)  # a stopped process starts no children
    signal_descendants(root, signal.SIGKILL)


def _has_stopped(pid: int) -> bool:
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return True  # it has just ended
    return all((state := _state_and_parent(one)) is None or state[0] in _STOPPED for one in threads)


def _state_and_parent(entry: Path) -> tuple[str, int] | None:
    """Read state and parent of a process or a thread; None if it has ended."""
    try:
        stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # pid (name) state ppid ...: the name may hold spaces and brackets, so count from its end.
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)


@dataclass(frozen=True, slots=True)
class GuardSpec:
    """The commands that a guard runs, in order, the server last; as `user` and `group` (None: as we are)."""

    commands: list[list[str]]
    environment: dict[str, str]
    folder: str
    log: str
    user: str | None = None  # PostgreSQL, which tests start so, refuses root; RabbitMQ runs as we do
    group: int | None = None


class GuardedProcess:
    """A server's processes, which die with us. Every method may be called in every state."""

    def __init__(self, what: str, spec: GuardSpec) -> None:
        self._what = what
        self._spec = spec
        self._guard: subprocess.Popen[str] | None = None
        self._server: int | None = None
        self._log_began_at = 0

    @property
    def running(self) -> bool:
        """True if the server's process is alive, whether or not it answers."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process that receives the server's signals."""
        if self._server is None or not self.running:
            raise ServerFailed(f"expected {self._what} to run, got none; start it first")
        return self._server

    @property
    def log(self) -> Path:
        return Path(self._spec.log)

    def launch(self, ready: Callable[[], bool], timeout: float) -> None:
        """Start, and return when `ready` returns true; a failed start leaves nothing behind."""
        if self.running:
            return
        self._log_began_at = self.log.stat().st_size if self.log.exists() else 0
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "warrener_devservers.guard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self._server = self._send_spec(self._guard)
            self._wait_until(ready, timeout)
        except BaseException:
            self.kill()
            raise

    def end(self, number: signal.Signals, timeout: float, pid: int | None = None) -> None:
        """End the server by a signal; SIGKILL and an error if it does not end in time.

        `pid` is the process that handles the signal, if it is not the one that was started.
        """
        if self._guard is None or not self.running:
            return
        self.resume()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or self.pid, number)
        try:
            self._guard.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failed(f"to stop within {timeout:g} s, got none of it; it was killed") from None
        self._release()

    def kill(self) -> None:
        """SIGKILL all processes at once."""
        if self._guard is None:
            return
        kill_descendants(self._guard.pid)
        guard = self._guard
        self._release()  # the guard ends when its pipe does
        try:
            guard.wait(_GUARD_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()

    def pause(self) -> None:
        """SIGSTOP: from the return of this call on, the server is alive and silent; its connections stay."""
        if self._guard is not None and self.running:
            pause_descendants(self._guard.pid)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        if self._guard is not None and self.running:
            signal_descendants(self._guard.pid, signal.SIGCONT)

    def _send_spec(self, guard: "subprocess.Popen[str]") -> int:
        """Send the guard the commands; it replies with the server's process id."""
        assert guard.stdin is not None
        assert guard.stdout is not None
        guard.stdin.write(json.dumps(asdict(self._spec)) + "\n")
        guard.stdin.flush()
        with guard.stdout as output:
            if line := output.readline():
                return int(line)
        raise self._failed("to start, got an error of its guard")

    def _wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running:
                raise self._failed("to start, got its end")
            if time.monotonic() > deadline:
                raise self._failed(f"to be ready within {timeout:g} s, got none")
            time.sleep(_POLL)

    def _failed(self, expected: str) -> ServerFailed:
        """Make the error, with the first errors of the log since the start, or else its last lines.

        The first errors, because a server that fails to start reports the cause first and then every
        consequence.
        """
        sentence = f"expected {self._what} {expected}."
        if not self.log.exists():
            return ServerFailed(sentence)
        lines = self.log.read_bytes()[self._log_began_at :].decode(errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower() or "FATAL" in line]
        excerpt = errors[:_LINES] or lines[-_LINES:]
        return ServerFailed("\n".join([f"{sentence} From {self.log}:", *excerpt]) if excerpt else sentence)

    def _release(self) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()
        self._guard = None
        self._server = None


class PrivateServer(GuardedProcess, ABC):
    """A server in a folder of its own, which ends with `stop`, or when this process dies in any way."""

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it is ready; do nothing if it runs."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server in order; its data stays."""

    def remove(self) -> None:
        """SIGKILL the server and delete its folder."""
        self.kill()
        shutil.rmtree(self._spec.folder, ignore_errors=True)

    def restart(self) -> None:
        """Stop and start; every connection is closed."""
        self.stop()
        self.start()

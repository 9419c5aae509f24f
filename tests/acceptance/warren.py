"""A whole Warrener for a test: real service processes, started, looked at and killed one by one."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal, TypeVar

import psutil
from tests.acceptance.fork_server import ForkedProcess, RunningProcess, Start, can_fork

from warrener_devservers.process import free_block

T = TypeVar("T")
ROOT = Path(__file__).parents[2]


def until(fact: Callable[[], T | Literal[False] | None], what: str, *, within: float = 60.0) -> T:
    """Wait until `fact` returns something true, and return it; fails with `what` was waited for.

    Pauses for four times as long as a look takes: one that runs a command costs as much as a service does.
    """
    deadline = monotonic() + within
    pause = threading.Event()
    while True:
        began = monotonic()
        if found := fact():
            return found
        if (now := monotonic()) > deadline:
            raise AssertionError(f"expected {what} within {within:.0f} s, got {found!r}")
        pause.wait(max(0.05, min(4 * (now - began), 1.0)))


def free_port() -> int:
    """A port that nobody listens on now, and that no connection is given as its own until somebody does."""
    return free_block([0])


def with_heartbeat(url: str, seconds: int) -> str:
    """The broker's URL for a service that will be frozen: the broker misses it after twice the heartbeat, by
    default 10 s."""
    return f"{url}?heartbeat={seconds}"


@contextmanager
def locked(file: Path) -> Generator[None]:
    """While we write to the SQLite database, and so nobody else: who is frozen now is in no transaction, in
    which nobody could write until it is thawed."""
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


@dataclass
class ServiceProcess:
    """One service of the warren."""

    name: str
    process: RunningProcess
    health_port: int
    log: Path

    def ready(self) -> bool:
        """What it says of itself at /ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/ready", timeout=10):
                return True
        except urllib.error.HTTPError as answer:
            answer.close()
            return False
        except OSError:
            if self.process.poll() is not None:
                raise AssertionError(
                    f"{self.name} ended with {self.process.returncode}:\n{self.log_text()}"
                ) from None
            return False

    def log_text(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-8000:]

    def records(self, action: str) -> list[dict[str, Any]]:
        """What it has logged of this action; of a line that is being written, nothing."""
        lines = self.log.read_text(errors="replace").rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in lines if f'"action": "{action}"' in line]

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(30)

    def signal(self, number: signal.Signals) -> None:
        """Any signal: SIGTERM drains, SIGSTOP freezes."""
        self.process.send_signal(number)

    def freeze(self) -> None:
        """SIGSTOP; returns when none of its threads runs: one that waits for the disk stops afterwards."""
        self.signal(signal.SIGSTOP)
        until(lambda: set(self._thread_states()) == {"T"}, f"{self.name} to stand still")

    def _thread_states(self) -> list[str]:
        """As proc(5) calls them: R runs, D waits for the disk, T is stopped."""
        threads = psutil.Process(self.process.pid).threads()
        states: list[str] = []
        for thread in threads:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                stat = Path(f"/proc/{self.process.pid}/task/{thread.id}/stat").read_text()
                states.append(stat.rpartition(")")[2].split()[0])
        return states

    def end(self) -> int:
        """SIGTERM, and the exit code."""
        self.terminate()
        return self.wait_ended()

    def terminate(self) -> None:
        """SIGTERM, for one that is frozen too."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()

    def wait_ended(self) -> int:
        """The exit code; a service that does not end in time is killed."""
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9


@dataclass
class Warren:
    """Where its services work: a broker, a store, a ledger, and the modules with the handlers."""

    folder: Path
    broker_url: str
    store_url: str
    ledger_url: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    services: list[ServiceProcess] = field(default_factory=list[ServiceProcess])
    launcher: tuple[str, ...] = ()
    """The command that becomes each service; none: the service is started directly."""
    forks: bool = False
    """True if services are forked where their environment lets them be; else each starts Python."""

    def settings(self, health_port: int) -> dict[str, str]:
        """The environment of a service."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")},
            "WARRENER_BROKER_URL": self.broker_url,
            "WARRENER_STORE_URL": self.store_url,
            "WARRENER_LEDGER_URL": self.ledger_url,
            "WARRENER_HEALTH_PORT": str(health_port),
            "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}",
            **self.environment,
        }

    def start(
        self, service: str, *arguments: str, python: str | None = None, **environment: str
    ) -> ServiceProcess:
        """Start one service, of another release if `python` is of its environment; returns at once."""
        number = len(self.services)
        port, log = free_port(), self.folder / f"{service}-{number}.log"
        settings = self.settings(port) | environment
        if python is None and self.forks and not self.launcher and can_fork(settings):
            start = Start(arguments, settings, str(self.folder), str(log), str(log))
            process: RunningProcess = ForkedProcess(f"warrener_{service}", start)
        else:
            process = self._spawn(
                [python or sys.executable, "-m", f"warrener_{service}", *arguments], settings, log
            )
        self.services.append(ServiceProcess(service, process, port, log))
        return self.services[-1]

    def _spawn(self, command: Sequence[str], settings: Mapping[str, str], log: Path) -> RunningProcess:
        with log.open("wb") as out:
            return subprocess.Popen(
                [*self.launcher, *command],
                cwd=self.folder,
                env=settings,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def start_all(self, *modules: str, agents: int = 1, slots: int = 10) -> None:
        """A scheduler, a supervisor and agents; returns when all are ready."""
        self.start("scheduler")
        self.start("supervisor")
        for _ in range(agents):
            self.start("agent", *modules, "--slots", str(slots))
        self.wait_ready()

    def lines(self, file: str) -> list[str]:
        """What handlers have written to a file of the folder; nothing before the first of them has."""
        notes = self.folder / file
        return notes.read_text().splitlines() if notes.exists() else []

    def wait_ready(self) -> None:
        """Until each service that runs says so."""
        for service in self.services:
            if service.process.poll() is None:
                until(service.ready, f"{service.name} to be ready")

    def end(self) -> None:
        """Stop all, the agents first."""
        agents = [service for service in self.services if service.name == "agent"]
        for leaving in (agents, [service for service in self.services if service not in agents]):
            for service in leaving:
                with suppress(ProcessLookupError):
                    service.terminate()
            for service in leaving:
                service.wait_ended()

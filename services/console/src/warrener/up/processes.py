"""Processes of `up`: which ones run, how each is kept alive, and in which order they stop."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from warrener.up.output import ConsoleOutput, read_line
from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.running_up import Endpoints

_STABLE_AFTER = 10.0  # seconds; an earlier death is a failed start
_UNUSABLE = 2  # the exit code of a service whose settings or modules cannot be used
_MAX_LINE_LENGTH = 4 * 1024 * 1024  # bytes
_STOP_ORDER = (("agent",), ("supervisor", "scheduler", "console"))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DRAIN_TIMEOUT = 30.0 + 20.0  # seconds; a service's own drain, and a margin
_HURRY_TIMEOUT = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to run."""

    name: str
    service: str
    command: tuple[str, ...]
    inherited: tuple[int, ...] = ()
    """File descriptors that it takes over."""


def console_spec(listening: int) -> ProcessSpec:
    """The console, which serves on a listening socket of ours: its address holds while it starts or is
    restarted. Pure."""
    command = (sys.executable, "-m", "warrener.web", "--listen-fd", str(listening))
    return ProcessSpec("console", "console", command, (listening,))


def process_specs(modules: Sequence[str], agents: int, slots: int | None) -> list[ProcessSpec]:
    """A scheduler, a supervisor, and agents for these modules (none without modules). Pure."""
    python = (sys.executable, "-m")
    agent = (*python, "warrener_agent", *modules, *(("--slots", str(slots)) if slots else ()))
    numbers = range(1, agents + 1) if modules else ()
    return [
        *(ProcessSpec(name, name, (*python, f"warrener_{name}")) for name in ("scheduler", "supervisor")),
        *(ProcessSpec(f"agent-{number}" if agents > 1 else "agent", "agent", agent) for number in numbers),
    ]


@dataclass(frozen=True, slots=True)
class LogLevels:
    """Levels of the services' own lines and of handlers' lines; None: as the agents' settings say."""

    services: str = "info"
    handlers: str | None = None


def build_environment(
    spec: ProcessSpec, inherited: Mapping[str, str], endpoints: Endpoints, levels: LogLevels
) -> dict[str, str]:
    """Environment of a service: the user's, with the endpoints of `up` over it; without a port. Pure."""
    own = {"WARRENER_STORE_URL": endpoints.store_url}
    if spec.service == "agent":
        own = {"WARRENER_LEDGER_URL": endpoints.ledger_url}
        own |= {"WARRENER_AGENT_HANDLER_LOG_LEVEL": levels.handlers} if levels.handlers else {}
    return {
        **inherited,
        **own,
        "WARRENER_BROKER_URL": endpoints.broker_url,
        "WARRENER_NAMESPACE": endpoints.namespace,
        "WARRENER_HEALTH_HOST": "127.0.0.1",
        "WARRENER_LOG_FORMAT": "json",
        "WARRENER_LOG_LEVEL": levels.services,
        "PYTHONUNBUFFERED": "1",
        **({"WARRENER_CONSOLE_HOST": "127.0.0.1"} if spec.service == "console" else {}),
    }


# -- keeping a process alive -------------------------------------------------------------------------------


class Unusable(Exception):
    """A service cannot work with its settings or modules: a restart would not help. The text is its last
    line."""


class SupervisedProcess:
    """Starts a service, forwards its output, and restarts it with a growing pause when it dies."""

    def __init__(self, spec: ProcessSpec, environment: Mapping[str, str], output: ConsoleOutput) -> None:
        self.spec, self._environment, self._output = spec, environment, output
        self.health_port = 0
        self._process: asyncio.subprocess.Process | None = None
        self._stop_requested = asyncio.Event()
        self._has_worked = False
        self._last_line = ""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self) -> None:
        """Run until `stop`. Raises Unusable if the service exits so before it has ever worked."""
        backoff = ExponentialBackoff(first=0.5, ceiling=30.0)
        while not self._stop_requested.is_set():
            began = monotonic()
            code = await self._run_once()
            if self._stop_requested.is_set():
                return
            if monotonic() - began >= _STABLE_AFTER:
                self._has_worked = True
                backoff.succeeded()
            if code == _UNUSABLE and not self._has_worked:
                raise Unusable(self._last_line)
            await self._wait_before_restart(code, backoff.failed())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop it without a restart: SIGTERM drains, a second one hurries, SIGKILL ends it."""
        self._stop_requested.set()
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def _run_once(self) -> int:
        with socket.socket() as probe:  # a free port
            probe.bind(("127.0.0.1", 0))
            self.health_port = int(probe.getsockname()[1])
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "warrener.up.die_with_parent",
            str(os.getpid()),
            *self.spec.command,
            env={**self._environment, "WARRENER_HEALTH_PORT": str(self.health_port)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_MAX_LINE_LENGTH,
            pass_fds=self.spec.inherited,
            start_new_session=True,  # the terminal's Ctrl-C is for `up`, which drains in order
        )
        self._process = process
        if self._stop_requested.is_set():
            self.stop()
        self._output.event(
            "started", f"started (process {process.pid})", source=self.spec.name, pid=process.pid
        )
        reading = asyncio.create_task(self._read_output(process))
        code = await process.wait()
        # A grandchild may hold the pipe open, so the wait for more output has a limit.
        await asyncio.wait({reading}, timeout=0.5)
        reading.cancel()
        return code

    async def _read_output(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                raw = await process.stdout.readline()
            except ValueError:  # an overlong line: its beginning is lost
                continue
            if not raw:
                return
            text = raw.decode(errors="replace").rstrip()
            if text:
                self._last_line = text
                self._output.line(self.spec.name, read_line(text))

    async def _wait_before_restart(self, code: int, seconds: float) -> None:
        how = f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            how = f"was killed by {signal.Signals(-code).name}"
        self._output.event(
            "exited",
            f"{how}; starting again in {seconds:.1f} s",
            source=self.spec.name,
            exit_code=code,
            restart_delay=seconds,
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop_requested.wait(), seconds)


# -- stopping ----------------------------------------------------------------------------------------------


class Shutdown:
    """Stops the services: the first signal drains, the second one hurries, the third one kills."""

    def __init__(self, output: ConsoleOutput) -> None:
        self.requested = asyncio.Event()
        self._hurry = asyncio.Event()
        self._kill = asyncio.Event()
        self._output = output

    @property
    def hurried(self) -> bool:
        return self._hurry.is_set()

    @contextmanager
    def on_signals(self) -> Generator[None]:
        """Handle Ctrl-C, SIGTERM and SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.request)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def request(self) -> None:
        """Count one signal."""
        if not self.requested.is_set():
            self.requested.set()
            self._output.event("draining", "stopping: running jobs may finish; Ctrl-C again releases them")
        elif not self._hurry.is_set():
            self._hurry.set()
            self._output.event("releasing", "releasing: running jobs are released, and run again later")
        else:
            self._kill.set()

    async def ends_before_signal(self, work: asyncio.Task[None]) -> bool:
        """True once `work` has ended, whose error is raised; False if a signal comes first."""
        if not await _wait_ended({work}, self.requested):
            return False
        await work
        return True

    async def stop_all(self, tasks: Mapping[asyncio.Task[None], SupervisedProcess]) -> None:
        """Stop all processes: agents first, then supervisor and scheduler, each with time to finish."""
        for services in _STOP_ORDER:
            some = {task: child for task, child in tasks.items() if child.spec.service in services}
            await self._stop(some)
        self._output.event("stopped", "all services have stopped")

    async def _stop(self, some: Mapping[asyncio.Task[None], SupervisedProcess]) -> None:
        for child in some.values():
            child.stop()
        if await _wait_ended(some, self._hurry, _DRAIN_TIMEOUT):
            return
        for child in some.values():
            child.stop()  # the second SIGTERM hurries a service
        if not await _wait_ended(some, self._kill, _HURRY_TIMEOUT):
            for child in some.values():
                self._output.event("killed", "did not end in time; killed", source=child.spec.name)
                child.stop(signal.SIGKILL)
            await asyncio.wait(some)


async def _wait_ended(
    some: Collection[asyncio.Task[None]], hurry: asyncio.Event, seconds: float | None = None
) -> bool:
    """Wait for all to end, for `hurry`, or for the timeout. True if all have ended."""
    if not some:
        return True
    waits = {asyncio.create_task(asyncio.wait(some)), asyncio.create_task(hurry.wait())}
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
    return all(task.done() for task in some)

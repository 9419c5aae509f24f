"""One process of the crew: kept alive until it is to leave."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from time import monotonic

from warrener.up.log_line import read_line
from warrener.up.output import ConsoleOutput
from warrener.up.process_specs import ProcessSpec
from warrener_runtime.backoff import ExponentialBackoff

_STABLE_AFTER = 10.0  # seconds after which a death is no longer a failed start
_UNUSABLE = 2  # the exit code of a service whose settings or modules cannot be used
_LONGEST_LINE = 4 * 1024 * 1024  # bytes


class Unusable(Exception):
    """The member says that it cannot work as it was told; starting it again would not help."""


class SupervisedProcess:
    """Starts the member, passes on what it writes, and starts it again with a growing pause when it dies."""

    def __init__(
        self,
        spec: ProcessSpec,
        environment: Callable[[ProcessSpec, int], Mapping[str, str]],
        output: ConsoleOutput,
    ) -> None:
        self.spec = spec
        self.health_port = 0
        self._environment = environment
        self._output = output
        self._process: asyncio.subprocess.Process | None = None
        self._stop_requested = asyncio.Event()
        self._has_worked = False

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self) -> None:
        """Until `stop`. Raises Unusable if the very first start shows that it can never work."""
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
                raise Unusable(self.spec.name)
            await self._wait_before_restart(code, backoff.failed())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end for good: SIGTERM drains, a second one hurries, SIGKILL ends it."""
        self._stop_requested.set()
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def _run_once(self) -> int:
        self.health_port = _free_port()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "warrener.up.die_with_parent",
            str(os.getpid()),
            *self.spec.command,
            env=dict(self._environment(self.spec, self.health_port)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_LONGEST_LINE,
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
        # A grandchild may hold the pipe open: what it says after the member's end is not waited for.
        await asyncio.wait({reading}, timeout=0.5)
        reading.cancel()
        return code

    async def _read_output(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                raw = await process.stdout.readline()
            except ValueError:  # longer than any line should be: what was read of it is lost
                continue
            if not raw:
                return
            text = raw.decode(errors="replace").rstrip()
            if text:
                self._output.line(self.spec.name, read_line(text))

    async def _wait_before_restart(self, code: int, seconds: float) -> None:
        self._output.event(
            "died",
            f"{_describe_exit(code)}; starting again in {seconds:.1f} s",
            source=self.spec.name,
            code=code,
            pause=seconds,
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop_requested.wait(), seconds)


def _describe_exit(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

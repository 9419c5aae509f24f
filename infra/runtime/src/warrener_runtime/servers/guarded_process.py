"""A server's processes as one thing: started under a guard, signalled and ended together."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from warrener_runtime.servers.errors import ServerFailed, with_log
from warrener_runtime.servers.guard_spec import GuardSpec
from warrener_runtime.servers.process_tree import kill_descendants, pause_descendants, signal_descendants

_GUARD_ENDS_WITHIN = 10.0  # seconds
_POLL = 0.02  # seconds; readiness is asked of the server, which cannot tell us by itself


class GuardedProcess:
    """Processes that die with us. Every method may be called in every state."""

    def __init__(self, what: str, spec: GuardSpec) -> None:
        self._what = what
        self._spec = spec
        self._guard: subprocess.Popen[str] | None = None
        self._server: int | None = None
        self._log_began_at = 0

    @property
    def running(self) -> bool:
        """Whether the server's process lives (which does not say that it answers)."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def pid(self) -> int:
        """The process that takes the server's signals."""
        if self._server is None or not self.running:
            raise ServerFailed(f"expected {self._what} to run, got none; start it first")
        return self._server

    def start(self, ready: Callable[[], bool], timeout: float) -> None:
        """Start, and return when `ready` says so; on failure nothing is left behind."""
        if self.running:
            return
        log = Path(self._spec.log)
        self._log_began_at = log.stat().st_size if log.exists() else 0
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "warrener_runtime.servers.guard"],
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

    def stop(self, number: signal.Signals, timeout: float, pid: int | None = None) -> None:
        """Ask it to end with the signal it understands so; SIGKILL and an error if it does not in time.

        `pid` is the process that understands it, if it is not the one that was started.
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
            raise ServerFailed(
                self._explained(f"expected {{}} to stop within {timeout:g} s, got none of it; it was killed")
            ) from None
        self._release()

    def kill(self) -> None:
        """SIGKILL to all of it, at once."""
        if self._guard is None:
            return
        kill_descendants(self._guard.pid)
        guard = self._guard
        self._release()  # the end of its pipe tells the guard to end
        try:
            guard.wait(_GUARD_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()

    def pause(self) -> None:
        """SIGSTOP: alive for the kernel, and silent for everyone else from the moment this returns."""
        if self._guard is not None and self.running:
            pause_descendants(self._guard.pid)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        if self._guard is not None and self.running:
            signal_descendants(self._guard.pid, signal.SIGCONT)

    def _send_spec(self, guard: "subprocess.Popen[str]") -> int:
        """Tell the guard what to run; it tells the server's process id."""
        assert guard.stdin is not None
        assert guard.stdout is not None
        guard.stdin.write(self._spec.encode() + "\n")
        guard.stdin.flush()
        with guard.stdout as output:
            if line := output.readline():
                return int(line)
        raise ServerFailed(self._explained("expected {} to start, got an error of its guard"))

    def _wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running:
                raise ServerFailed(self._explained("expected {} to start, got its end"))
            if time.monotonic() > deadline:
                raise ServerFailed(
                    self._explained(f"expected {{}} to be ready within {timeout:g} s, got none")
                )
            time.sleep(_POLL)

    def _explained(self, sentence: str) -> str:
        return with_log(sentence.format(self._what) + ".", Path(self._spec.log), self._log_began_at)

    def _release(self) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()
        self._guard = None
        self._server = None

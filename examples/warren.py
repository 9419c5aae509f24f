"""`warrener up` as a child of the demo: started, watched, one of its processes killed, stopped."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil


class Warren:
    """The embedded default in a folder of its own: a private RabbitMQ, SQLite, the services, two agents for
    the modules."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self._folder = folder
        self._command = [
            sys.executable,
            "-m",
            "warrener",
            "up",
            *modules,
            "--agents",
            "2",
            "--slots",
            "2",
            "--json",
        ]
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._last: list[str] = []
        self.console_url: str | None = None
        self.restarted: list[str] = []  # who died and was started again
        self.alerts: list[str] = []  # of the supervisor, in its log
        self._process: subprocess.Popen[str] | None = None

    def start(self, *, within: float = 90.0) -> None:
        """Start it, and wait until every service is ready and the job types are announced."""
        self._process = subprocess.Popen(  # noqa: S603 - our own command, in our own folder
            [*self._command, "--data", str(self._folder)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        if not self._ready.wait(within) or self._ended.is_set():
            raise SystemExit("expected `warrener up` to be ready, got:\n" + "\n".join(self._last[-15:]))

    def broker_url(self) -> str:
        """Where its RabbitMQ listens."""
        endpoints = json.loads((self._folder / "endpoints.json").read_text())
        return str(endpoints["broker_url"])

    def kill(self, victim: str) -> int:
        """kill -9 the broker, the scheduler, the supervisor or the first agent; its process number."""
        assert self._process is not None
        module = {"broker": "beam.smp"}.get(victim, f"warrener_{victim}")
        for process in psutil.Process(self._process.pid).children(recursive=True):
            words = process.cmdline()
            if any(word == module or word.endswith(f"/{module}") for word in words[:4]):
                process.kill()
                return int(process.pid)
        raise SystemExit(f"expected a running {victim} to kill, got none")

    def wait(self) -> None:
        """Let it run until it ends or Ctrl-C comes."""
        with contextlib.suppress(KeyboardInterrupt):
            self._ended.wait()

    def stop(self) -> int:
        """Ctrl-C, and its exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return -9

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            self._last.append(str(event.get("message", line)).rstrip())
            del self._last[:-50]
            if event.get("event") == "ready":
                self.console_url = event.get("console_url")
                self._ready.set()
            elif event.get("event") == "exited":
                self.restarted.append(str(event.get("source")))
            elif self._last[-1].startswith("Alert: "):
                self.alerts.append(self._last[-1])
        self._ended.set()
        self._ready.set()

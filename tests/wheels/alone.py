"""A service that runs by itself, from an environment that has nothing else."""

import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path


class Alone:
    """One service's process, with its output in a file."""

    def __init__(self, command: list[str], folder: Path, health_port: int, **settings: str) -> None:
        self._log = folder / "service.log"
        self._ready_url = f"http://127.0.0.1:{health_port}/ready"
        self._metrics_url = f"http://127.0.0.1:{health_port}/metrics"
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(folder),  # for the handlers; the service's own code is in its environment
            "WARRENER_HEALTH_PORT": str(health_port),
            **settings,
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def log_text(self) -> str:
        """All that it has said so far."""
        return self._log.read_text(encoding="utf-8")

    def wait_until(self, fact: Callable[[], bool], what: str, within: float = 60.0) -> None:
        """Wait for a fact of the process, which cannot tell us; it must live on meanwhile."""
        deadline, pause = time.monotonic() + within, threading.Event()
        while not fact():
            assert self._process.poll() is None, f"expected {what}, got its end:\n{self.log_text()}"
            assert time.monotonic() < deadline, f"expected {what} within {within} s, got:\n{self.log_text()}"
            pause.wait(0.05)

    def ready(self) -> bool:
        """What it says of itself."""
        try:
            with urllib.request.urlopen(self._ready_url, timeout=10):
                return True
        except urllib.error.HTTPError as answer:
            answer.close()
            return False
        except OSError:
            return False

    def metrics_text(self) -> str:
        """Its metrics, for Prometheus."""
        with urllib.request.urlopen(self._metrics_url, timeout=10) as answer:
            return str(answer.read().decode())

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def end(self) -> int:
        """SIGTERM, and its exit code."""
        self._process.terminate()
        return self._process.wait(60)

    def kill(self) -> None:
        """Leave nothing behind."""
        self._process.kill()
        self._process.wait(30)

"""A service that runs by itself, from an environment that has nothing else."""

import os
import subprocess
import urllib.request
from pathlib import Path

from tests.acceptance.warren import ServiceProcess


class Alone(ServiceProcess):
    """One service's process, with its output in a file."""

    def __init__(self, command: list[str], folder: Path, health_port: int, **settings: str) -> None:
        log = folder / "service.log"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(folder),  # for the handlers; the service's own code is in its environment
            "WARRENER_HEALTH_PORT": str(health_port),
            **settings,
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        super().__init__(Path(command[0]).name, process, health_port, log)

    def metrics_text(self) -> str:
        """Its metrics, for Prometheus."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

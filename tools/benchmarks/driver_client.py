"""The harness's side of the process that asks."""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.benchmarks.place import Place
from tools.benchmarks.systems.port import Command


@dataclass(frozen=True, slots=True)
class RequestCost:
    """How long the asking took, and the processor time of the asker."""

    seconds: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds from the asking, sample by sample."""

    started: list[float]
    seen: list[float]


class Driver:
    """Asks when it is told to."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._log = process, log
        self._receive()

    @classmethod
    @contextmanager
    def made(cls, command: Command, place: Place, log: Path) -> Generator["Driver"]:
        """Started and connected; ended at the end."""
        with log.open("ab") as out:
            process = subprocess.Popen(
                [command.program, *command.arguments],
                cwd=command.root,
                env=place.environment(PYTHONPATH=str(command.root), **command.environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
            )
        try:
            yield cls(process, log)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def request(self, count: int, size: int) -> RequestCost:
        """Ask for so many jobs."""
        return RequestCost(**self._send({"do": "ask", "count": count, "payload": size}))

    def latency(self, samples: int, rate: float = 0.0) -> Latencies:
        """One job after another, beside a steady load of `rate` jobs a second."""
        return Latencies(**self._send({"do": "latency", "samples": samples, "rate": rate}))

    def _send(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            output = self._log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"expected an answer of the asker, got its end:\n{output}")
        answer: dict[str, Any] = json.loads(line)
        return answer

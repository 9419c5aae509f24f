"""Processes of a round: started, ended, and what they cost with all their children."""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from tools.benchmarks.place import Place
from tools.benchmarks.systems.port import Command

_GRACE = 20.0  # seconds to end in order
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Workers:
    """What runs for one system."""

    processes: Sequence[subprocess.Popen[bytes]]
    parts: Sequence[str]

    @classmethod
    def start(cls, commands: Sequence[Command], place: Place, log: Path) -> "Workers":
        """Start all, and return at once."""
        with log.open("ab") as out:
            return cls(
                [
                    subprocess.Popen(
                        [command.program, *command.arguments],
                        cwd=command.root,
                        env=place.environment(PYTHONPATH=str(command.root), **command.environment),
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                    )
                    for command in commands
                ],
                [command.part for command in commands],
            )

    @property
    def pids(self) -> list[int]:
        """Of those that were started; their children are theirs."""
        return [process.pid for process in self.processes]

    @property
    def by_part(self) -> dict[str, list[int]]:
        """The process ids of each part of the system."""
        found: dict[str, list[int]] = {part: [] for part in self.parts}
        for part, pid in zip(self.parts, self.pids, strict=True):
            found[part].append(pid)
        return found

    def check(self) -> None:
        """Raise if one has ended by itself."""
        for process in self.processes:
            if process.poll() is not None:
                raise RuntimeError(f"expected {process.args!r} to run, got its end with {process.returncode}")

    def stop(self) -> None:
        """End all in order, the last first; and by force what does not end."""
        families = [_family(pid) for pid in self.pids]
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for left in (one for family in families for one in family if one.is_running()):
            left.kill()


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor time of these and all their descendants, those that have ended among them."""
    used = 0.0
    for pid in pids:
        for process in _family(pid):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue  # its time is in its parent's now
            used += times.user + times.system + times.children_user + times.children_system
    return used


def memory_megabytes(pids: Iterable[int]) -> list[float]:
    """Memory that is each process's own (USS), of all descendants, the biggest first."""
    found: list[float] = []
    for pid in pids:
        for process in _family(pid):
            try:
                found.append(process.memory_full_info().uss / _MEGABYTE)
            except psutil.NoSuchProcess:
                continue
    return sorted(found, reverse=True)


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []

"""What the harness needs to know of a system that it measures."""

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tools.benchmarks.place import ROOT, Place


class Requester(Protocol):
    """Asks for jobs, in a process of its own."""

    async def request(self, count: int, payload: str) -> None:
        """Ask for `count` no-op jobs; return when the broker or database has confirmed that it keeps all."""

    async def request_and_wait(self) -> None:
        """Ask for one job that stamps when it begins, and wait until its result is seen."""


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start: of this checkout's Python, if nothing else is said."""

    arguments: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict[str, str])
    part: str = "workers"  # of the system; the processor time of each part is reported
    program: str = sys.executable
    root: Path = ROOT  # the folder that it runs in, and imports from


def python_driver(system: str) -> Command:
    """The process that requests jobs of a system whose requester is in Python (driver.py)."""
    return Command(("-m", "tools.benchmarks.driver", system))


class System(Protocol):
    """One system in its durable settings. `finished` is SQL; None: what has left the broker is finished."""

    @property
    def name(self) -> str:
        """As it stands in the table."""
        ...

    @property
    def settings(self) -> str:
        """What was set, for the reader of the table."""
        ...

    @property
    def finished(self) -> str | None:
        """The statement that counts the jobs whose end is kept."""
        ...

    def prepare(self, place: Place) -> None:
        """Make its tables and queues in a fresh place."""

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        """All that has to run so that jobs are done, with `count` processes that do them."""
        ...

    @property
    def driver(self) -> Command:
        """The process that requests its jobs, by the lines of driver.py."""
        ...


class PythonSystem(System, Protocol):
    """A system whose jobs can be requested from Python."""

    def requester(self, place: Place) -> AbstractAsyncContextManager[Requester]:
        """An open asker."""
        ...

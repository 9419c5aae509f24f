"""What the harness needs to know of a system that it measures."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from tests.benchmarks.place import Place


class Asker(Protocol):
    """Asks for jobs, in a process of its own."""

    async def ask(self, count: int, payload: str) -> None:
        """Ask for `count` no-op jobs; return when the broker or database has confirmed that it keeps all."""
        ...

    async def ask_and_wait(self) -> None:
        """Ask for one job that stamps when it begins, and wait until its result is seen."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start."""

    arguments: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict[str, str])
    part: str = "workers"  # of the system; the processor time of each part is told


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
        ...

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        """All that has to run so that jobs are done, with `count` processes that do them."""
        ...

    def asker(self, place: Place) -> AbstractAsyncContextManager[Asker]:
        """An open asker."""
        ...

"""The flight recorder: what is kept of an attempt in case it must be stopped, or dies."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from warrener_agent.executors.output import Output
from warrener_agent.executors.tree import open_files, usage
from warrener_contracts.events import FlightRecord

_STACKS = 16_000


class Recorder:
    """Of one process after another attempt."""

    def __init__(self, log: Output) -> None:
        self._log = log
        self._progress: tuple[float, str] | None = None

    def begin(self) -> None:
        """Another attempt: what was, is forgotten."""
        self._log.forget()
        self._progress = None

    def progress(self, fraction: float, note: str) -> None:
        """It has come so far."""
        self._progress = fraction, note

    def record(self, pids: Sequence[int], stacks: str) -> FlightRecord:
        """What is known now. `pids`: its processes, if they still run."""
        self._log.drain()
        fraction, note = self._progress or (None, None)
        told = FlightRecord(
            stacks=stacks[-_STACKS:] or None,
            log=self._log.text or None,
            progress=fraction,
            progress_note=note or None,
        )
        used = usage(pids)
        if not used.processes:
            return told
        return told.model_copy(
            update={
                "cpu_seconds": used.cpu_seconds,
                "memory_bytes": used.memory,
                "processes": used.processes,
                "threads": used.threads,
                "open_files": open_files(pids),
            }
        )


def command_lines(pids: Sequence[int]) -> str:
    """What runs, for want of stacks: each process with its state, and where in the kernel it waits."""
    return "\n".join(told for pid in pids if (told := _command_line(Path("/proc") / str(pid))))


def _command_line(folder: Path) -> str:
    with suppress(OSError):
        words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        return f"Process {folder.name} ({state}, {_waits(folder)}): {words[:400]}"
    return ""


def _waits(folder: Path) -> str:
    with suppress(OSError):
        where = (folder / "wchan").read_text().strip("0")
        return f"waits in {where}" if where else "runs"
    return "runs"

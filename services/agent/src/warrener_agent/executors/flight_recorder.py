"""The flight recorder: what is kept of an attempt in case it must be stopped, or dies."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from warrener_agent.executors.log_capture import LogCapture
from warrener_agent.executors.output import CapturedOutput
from warrener_agent.executors.tree import open_files, usage
from warrener_contracts.events import FlightRecord
from warrener_runtime.settings.secrets import mask

_STACKS = 16_000


class FlightRecorder:
    """Of one process after another attempt."""

    def __init__(self, log: CapturedOutput) -> None:
        self._log = log
        self._progress: tuple[float, str] | None = None

    def begin(self) -> None:
        """Another attempt: what was, is forgotten."""
        self._log.clear()
        self._progress = None

    def progress(self, fraction: float, note: str) -> None:
        """It has come so far."""
        self._progress = fraction, note

    def record(self, pids: Sequence[int], stacks: str) -> FlightRecord:
        """What is known now. `pids`: its processes, if they still run."""
        self._log.drain()
        fraction, note = self._progress or (None, None)
        record = FlightRecord(
            stacks=stacks[-_STACKS:] or None,
            log=_masked(self._log.text),
            progress=fraction,
            progress_note=note or None,
        )
        used = usage(pids)
        if not used.processes:
            return record
        return record.model_copy(
            update={
                "cpu_seconds": used.cpu_seconds,
                "memory_bytes": used.memory,
                "processes": used.processes,
                "threads": used.threads,
                "open_files": open_files(pids),
            }
        )


def record_in_agent(
    stacks: Iterable[str], log_capture: LogCapture, *, cpu_seconds: float | None = None
) -> FlightRecord:
    """Of an attempt that shares the agent's process: what the others use cannot be told from what it uses."""
    text = "\n".join(stacks)
    return FlightRecord(
        stacks=text[-_STACKS:] or None, log=_masked(log_capture.text), cpu_seconds=cpu_seconds
    )


def with_progress(
    record: FlightRecord | None, progress_value: tuple[float, str] | None
) -> FlightRecord | None:
    """The same, with how far it said that it was."""
    if record is None or progress_value is None:
        return record
    fraction, note = progress_value
    return record.model_copy(update={"progress": fraction, "progress_note": note or None})


def _masked(text: str | None) -> str | None:
    """What it wrote, without the passwords of URLs."""
    return mask(text) if text else None


def command_lines(pids: Sequence[int]) -> str:
    """What runs, for want of stacks: each process with its state, and where in the kernel it waits."""
    return "\n".join(line for pid in pids if (line := _command_line(Path("/proc") / str(pid))))


def _command_line(folder: Path) -> str:
    with suppress(OSError):
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        return f"Process {folder.name} ({state}, {_describe_wait(folder)}): {command[:400]}"
    return ""


def _describe_wait(folder: Path) -> str:
    with suppress(OSError):
        where = (folder / "wchan").read_text().strip("0")
        return f"waits in {where}" if where else "runs"
    return "runs"

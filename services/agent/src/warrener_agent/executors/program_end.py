"""What the end of a program means for its attempt. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from warrener_agent.executors.exit_info import EXIT_CODE, OUT_OF_MEMORY, ExitInfo, describe_crash
from warrener_agent.executors.port import HandlerRaised
from warrener_agent.isolation import Limits, format_size
from warrener_agent.program import OutputFormat, ProgramCall
from warrener_contracts.events import ErrorInfo, ErrorKind, FlightRecord

_NEARLY = 0.85
"""Of its memory: a program that failed with so much of it has most likely failed for want of more."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How it ended. `code` is its exit code, or a signal as a negative number; None where its keeper died.
    `memory` is the most that it held; `failed` says why it could not be started."""

    code: int | None
    cpu_seconds: float = 0.0
    memory: int = 0
    failed: str | None = None

    @property
    def exited(self) -> bool:
        """Whether it has ended of its own will."""
        return self.code is not None and self.code >= 0


def program_failed(
    call: ProgramCall, end: ProgramEnd, limits: Limits, record: FlightRecord, *, oom_killed: bool
) -> HandlerRaised:
    """The outcome of a program that has not ended as it should."""
    if end.code is not None:
        record = record.model_copy(update={"cpu_seconds": end.cpu_seconds, "memory_bytes": end.memory})
    if end.code is None or end.code < 0:
        return describe_crash(f"{call.argv[0]} to exit", ExitInfo(end.code, oom_killed), limits, record)
    kind, why = _why(end, limits)
    last = (record.log or "").strip().rpartition("\n")[2]
    message = f"expected {call.argv[0]} to exit with {_codes(call)}, it exited with {end.code}{why}"
    info = ErrorInfo(
        kind=ErrorKind.ERROR,
        type=kind,
        message=f"{message}: {last}" if last else message,
        retryable=end.code not in call.program.no_retry,
        flight_record=record,
    )
    return HandlerRaised(info, call.program.delay_after(end.code))


def read_output(output: OutputFormat, stdout: bytes) -> Any:
    """The result that it wrote. Raises ValueError."""
    match output:
        case "nothing":
            return None
        case "text":
            return stdout.decode()
        case "json":
            if not stdout.strip():
                raise ValueError("it wrote nothing")
            return json.loads(stdout, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _why(end: ProgramEnd, limits: Limits) -> tuple[str, str]:
    may = limits.memory_bytes
    if may is None or end.memory < may * _NEARLY:
        return EXIT_CODE, ""
    return (
        OUT_OF_MEMORY,
        f" after it had used {format_size(end.memory)} of the {format_size(may)} that it may use",
    )


def _codes(call: ProgramCall) -> str:
    return " or ".join(map(str, call.program.ok))

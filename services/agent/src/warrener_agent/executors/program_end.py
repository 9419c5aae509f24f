"""What the end of a program means for its attempt. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from warrener_agent.executors.death import EXIT_CODE, OUT_OF_MEMORY, Death, died
from warrener_agent.executors.port import Raised
from warrener_agent.isolation import Limits, size_text
from warrener_agent.program import Order, Output
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
    order: Order, end: ProgramEnd, limits: Limits, record: FlightRecord, *, oom_killed: bool
) -> Raised:
    """The outcome of a program that has not ended as it should."""
    if end.code is not None:
        record = record.model_copy(update={"cpu_seconds": end.cpu_seconds, "memory_bytes": end.memory})
    if end.code is None or end.code < 0:
        return died(f"{order.argv[0]} to exit", Death(end.code, oom_killed), limits, record)
    kind, why = _why(end, limits)
    last = (record.log or "").strip().rpartition("\n")[2]
    message = f"expected {order.argv[0]} to exit with {_codes(order)}, it exited with {end.code}{why}"
    info = ErrorInfo(
        kind=ErrorKind.ERROR,
        type=kind,
        message=f"{message}: {last}" if last else message,
        retryable=end.code not in order.program.no_retry,
        flight_record=record,
    )
    return Raised(info, order.program.delay_after(end.code))


def read_output(output: Output, stdout: bytes) -> Any:
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
        f" after it had used {size_text(end.memory)} of the {size_text(may)} that it may use",
    )


def _codes(order: Order) -> str:
    return " or ".join(map(str, order.program.ok))

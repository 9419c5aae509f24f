"""What is told of a process that died, or had to be killed. Pure."""

import signal
from dataclasses import dataclass, replace

from warrener_agent.executors.port import HandlerRaised, HandlerResult
from warrener_agent.isolation import Limits, format_size
from warrener_contracts.events import ErrorInfo, ErrorKind, FlightRecord

OUT_OF_MEMORY = "OutOfMemory"
CPU_TIME_LIMIT = "CpuTimeLimit"
FILE_SIZE_LIMIT = "FileSizeLimit"
PROCESS_LIMIT = "ProcessLimit"
EXIT_CODE = "ExitCode"
GONE = "Gone"
BLOCKED = "Blocked"


@dataclass(frozen=True, slots=True)
class ExitInfo:
    """A process is gone, and not because we wanted it. `code` is its exit code, or a signal as a negative
    number; None where nobody knows. `oom_killed`: the kernel has killed for want of memory meanwhile."""

    code: int | None
    oom_killed: bool = False


@dataclass(frozen=True, slots=True)
class LimitExceeded:
    """It has used more than it may, and must be killed."""

    type: str
    message: str


def is_fault(raised: HandlerRaised, limits: Limits) -> bool:
    """Whether a process died by itself, rather than by a limit that its job type has declared."""
    return raised.error.type not in {CPU_TIME_LIMIT, FILE_SIZE_LIMIT} and not (
        raised.error.type == OUT_OF_MEMORY and limits.memory_bytes is not None
    )


def describe_crash(
    what: str, exit_info: ExitInfo, limits: Limits, record: FlightRecord | None
) -> HandlerRaised:
    """The end of an attempt whose process died."""
    kind, how = _how(exit_info, limits)
    message = f"expected {what}, it {how}"
    return HandlerRaised(ErrorInfo(kind=ErrorKind.CRASH, type=kind, message=message, flight_record=record))


def describe_limit_kill(exceeded: LimitExceeded, record: FlightRecord | None) -> HandlerRaised:
    """The end of an attempt that used more than it may."""
    return HandlerRaised(
        ErrorInfo(kind=ErrorKind.CRASH, type=exceeded.type, message=exceeded.message, flight_record=record)
    )


def describe_blocked_loop(seconds: float, record: FlightRecord | None) -> HandlerRaised:
    """The end of a coroutine that let nothing else run in its agent, and ended with it."""
    message = (
        f"expected it to await now and then, it kept the event loop of its agent for {seconds:.0f} s, and "
        'the agent has ended with it: give the job executor="thread" or "process"'
    )
    return HandlerRaised(ErrorInfo(kind=ErrorKind.CRASH, type=BLOCKED, message=message, flight_record=record))


def relabel_memory_error(ended: HandlerResult, limits: Limits) -> HandlerResult:
    """A MemoryError under a limit of memory is told as what it is; anything else as it was."""
    if (
        not isinstance(ended, HandlerRaised)
        or ended.error.type != "MemoryError"
        or limits.memory_bytes is None
    ):
        return ended
    message = f"MemoryError: {ended.error.message}: it may use {format_size(limits.memory_bytes)}"
    return replace(ended, error=ended.error.model_copy(update={"type": OUT_OF_MEMORY, "message": message}))


def find_exceeded_limit(
    limits: Limits, *, memory: int, cpu_seconds: float, processes: int
) -> LimitExceeded | None:
    """Which limit is exceeded by what an attempt uses, if one is."""
    if limits.memory_bytes is not None and memory > limits.memory_bytes:
        used, may = format_size(memory), format_size(limits.memory_bytes)
        return LimitExceeded(OUT_OF_MEMORY, f"expected it to use at most {may} of memory, it used {used}")
    if limits.cpu_seconds is not None and cpu_seconds > limits.cpu_seconds + 1:
        # The kernel's own limit, which counts whole seconds of one process, comes first where it can.
        return LimitExceeded(
            CPU_TIME_LIMIT,
            f"expected it to use at most {limits.cpu_seconds:g} s of a processor, it used {cpu_seconds:.1f}",
        )
    if limits.processes is not None and processes > limits.processes:
        return LimitExceeded(
            PROCESS_LIMIT, f"expected at most {limits.processes} processes, it had {processes} at once"
        )
    return None


def _how(exit_info: ExitInfo, limits: Limits) -> tuple[str, str]:
    code = exit_info.code
    if code in {None, -signal.SIGKILL} and exit_info.oom_killed:
        return OUT_OF_MEMORY, "was killed by the kernel, for want of memory"
    if code is None:
        return GONE, "is gone, and nobody has seen how"
    if code >= 0:
        return EXIT_CODE, f"ended with exit code {code}"
    if code == -signal.SIGXCPU and limits.cpu_seconds is not None:
        return CPU_TIME_LIMIT, f"used more than its {limits.cpu_seconds:g} s of a processor (SIGXCPU)"
    if code == -signal.SIGXFSZ and limits.file_bytes is not None:
        may = format_size(limits.file_bytes)
        return FILE_SIZE_LIMIT, f"wrote a file of more than {may} (SIGXFSZ)"
    name = _name(-code)
    by = ", sent by somebody else than its agent" if code == -signal.SIGKILL else ""
    return name, f"was killed by signal {-code} ({name}){by}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"SIG{number}"

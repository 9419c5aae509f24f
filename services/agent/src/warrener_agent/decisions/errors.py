"""Describe how a handler or its process failed, as data for the ledger and the wire."""

import json
import os
import signal
import traceback
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from warrener_agent.context import SignalSpec
from warrener_agent.definitions.isolation import Limits, format_size
from warrener_agent.definitions.job import error_type_name
from warrener_agent.definitions.program import OutputFormat, ProgramCall
from warrener_agent.failures import Cancel, Fail, HandlerSignal, RetryAfter, Snooze
from warrener_agent.workflows.failures import ends_workflow, needs_other_code
from warrener_contracts.events import Call, ErrorInfo, ErrorKind, FlightRecord, Suspension
from warrener_contracts.policy import JobPolicy
from warrener_contracts.retryability import CODE_CHANGED, non_retryable_reason

OUT_OF_MEMORY = "OutOfMemory"
CPU_TIME_LIMIT = "CpuTimeLimit"
FILE_SIZE_LIMIT = "FileSizeLimit"
PROCESS_LIMIT = "ProcessLimit"
EXIT_CODE = "ExitCode"
GONE = "Gone"
BLOCKED = "Blocked"

_MAX_MESSAGE, _MAX_STACK, _MAX_BASES = 4_000, 16_000, 20
_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_NEARLY = 0.85  # share of its memory limit from which a failed program counts as out of memory


class HandlerReturned(NamedTuple):
    """The handler returned; `result_text` is JSON, stored and published as it stands. `cancels`: the child
    jobs of a workflow that nothing awaits any longer; `signals`: those that it sends."""

    result_text: str
    cancels: tuple[Call, ...] = ()
    signals: tuple[SignalSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class HandlerRaised:
    """The handler raised, could not be called, or its executor died."""

    error: ErrorInfo
    retry_after_seconds: float | None = None
    handler_signal: HandlerSignal | None = None


class HandlerSuspended(NamedTuple):
    """A turn of a workflow has ended: it waits. `cancels`: child jobs that nothing awaits any longer."""

    suspension: Suspension
    cancels: tuple[Call, ...] = ()
    signals: tuple[SignalSpec, ...] = ()


HandlerResult = HandlerReturned | HandlerRaised
HandlerEnd = HandlerResult | HandlerSuspended

# -- errors of a handler -----------------------------------------------------------------------------------


def describe_error(error: BaseException, policy: JobPolicy | None = None) -> HandlerRaised:
    """Describe an exception that a handler raised, or returned in place of its result.

    The stack begins in the handler; a long one loses its beginning.
    """
    # The names that `retry_on` and `no_retry_on` may use beside the class itself.
    bases = [error_type_name(base) for base in type(error).__mro__[1:] if issubclass(base, Exception)]
    stack, trace = None, error.__traceback__
    if trace is not None:  # raised, not returned
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
            trace = trace.tb_next
        stack = "".join(traceback.format_exception(type(error), error, trace))[-_MAX_STACK:]
    try:
        message = str(error)
    except BaseException as raised:  # noqa: BLE001 - of a user's class: its handler must come to an end
        message = f"its text cannot be read: __str__ raised {type(raised).__name__}"
    info = ErrorInfo(
        kind=ErrorKind.ERROR,
        type=error_type_name(type(error)),
        message=message[:_MAX_MESSAGE],
        stack=stack,
        retryable=not isinstance(error, Fail | Cancel),
        base_classes=tuple(bases[:_MAX_BASES]),
    )
    delay = error.delay.total_seconds() if isinstance(error, RetryAfter | Snooze) else None
    if delay is None and info.retryable and policy is not None and non_retryable_reason(info, policy):
        # A supervisor older than 1.1 knows no names of errors, and relies on this flag.
        info = info.model_copy(update={"retryable": False, "no_retry_by_policy": True})
    if isinstance(error, Snooze):
        return HandlerRaised(info, delay, HandlerSignal.SNOOZED)
    return HandlerRaised(info, delay, HandlerSignal.CANCELLED if isinstance(error, Cancel) else None)


def describe_turn_error(error: BaseException, policy: JobPolicy | None = None) -> HandlerRaised:
    """Describe an exception that left the body of a workflow: one that ends it is never retried, and one that
    only other code can mend is no failure of the job (`retryability.is_unrunnable_here`)."""
    if needs_other_code(error):
        raised = describe_error(error)
        return replace(raised, error=raised.error.model_copy(update={"type": CODE_CHANGED}))
    raised = describe_error(error, policy)
    if not ends_workflow(error):
        return raised
    final = {"retryable": False, "no_retry_by_policy": False}
    return replace(raised, error=raised.error.model_copy(update=final))


def permanent_failure(kind: ErrorKind, message: str) -> HandlerRaised:
    """Describe a failure that no other attempt can mend."""
    return HandlerRaised(
        ErrorInfo(kind=kind, type=kind.value, message=message[:_MAX_MESSAGE], retryable=False)
    )


def timeout_failure(timeout: timedelta, deadline: datetime | None) -> HandlerRaised:
    """Describe an attempt that outlived its timeout, or its job's `deadline` where that came first."""
    limit = (
        f"within its timeout of {timeout.total_seconds():g} s"
        if deadline is None
        else f"by the deadline of its job, {deadline.isoformat(timespec='seconds')}"
    )
    return _timeout(f"expected it to end {limit}, it had not")


def heartbeat_failure(timeout: float) -> HandlerRaised:
    """Describe a handler that gave no sign of life for `timeout` seconds: a timeout like any other."""
    return _timeout(f"expected a sign of life within its heartbeat_timeout of {timeout:g} s, it was silent")


def _timeout(message: str) -> HandlerRaised:
    return HandlerRaised(ErrorInfo(kind=ErrorKind.TIMEOUT, type=ErrorKind.TIMEOUT.value, message=message))


def start_failure(name: str, why: str) -> HandlerRaised:
    """Describe an attempt whose process could not be started. Another agent may be able to."""
    return HandlerRaised(ErrorInfo(kind=ErrorKind.ERROR, type="CannotRun", message=f"{name}: {why}"))


def with_flight_record(raised: HandlerRaised, record: FlightRecord | None) -> HandlerRaised:
    """Add the flight record, if there is one."""
    if record is None:
        return raised
    return replace(raised, error=raised.error.model_copy(update={"flight_record": record}))


# -- ends of a process -------------------------------------------------------------------------------------


def is_fault(raised: HandlerRaised, limits: Limits) -> bool:
    """True if a process died by itself, rather than by a limit that its job type declares."""
    return raised.error.type not in {CPU_TIME_LIMIT, FILE_SIZE_LIMIT} and not (
        raised.error.type == OUT_OF_MEMORY and limits.memory_bytes is not None
    )


def describe_crash(
    what: str, code: int | None, limits: Limits, record: FlightRecord | None, *, oom_killed: bool = False
) -> HandlerRaised:
    """Describe an attempt whose process died, and its agent did not end it; `what` was expected of it.

    `code`: its exit code, or a signal as a negative number; None if unknown. `oom_killed`: the kernel killed
    for lack of memory meanwhile.
    """
    kind, how = _how(code, limits, oom_killed=oom_killed)
    return _crash(kind, f"expected {what}, it {how}", record)


def describe_blocked_loop(seconds: float, record: FlightRecord | None) -> HandlerRaised:
    """Describe a coroutine that blocked its agent's event loop, and ended with the agent."""
    message = (
        f"expected it to await now and then, it kept the event loop of its agent for {seconds:.0f} s, and "
        'the agent has ended with it: give the job executor="thread" or "process"'
    )
    return _crash(BLOCKED, message, record)


def relabel_memory_error(ended: HandlerResult, limits: Limits) -> HandlerResult:
    """Turn a MemoryError under a memory limit into OutOfMemory; return anything else unchanged."""
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
) -> HandlerRaised | None:
    """Describe the end of an attempt that uses more than its limits allow, and must be killed."""
    if limits.memory_bytes is not None and memory > limits.memory_bytes:
        used, may = format_size(memory), format_size(limits.memory_bytes)
        return _crash(OUT_OF_MEMORY, f"expected it to use at most {may} of memory, it used {used}")
    if limits.cpu_seconds is not None and cpu_seconds > limits.cpu_seconds + 1:
        # The kernel's own limit counts whole seconds of one process, and applies first where it can.
        return _crash(
            CPU_TIME_LIMIT,
            f"expected it to use at most {limits.cpu_seconds:g} s of a processor, it used {cpu_seconds:.1f}",
        )
    if limits.processes is not None and processes > limits.processes:
        return _crash(
            PROCESS_LIMIT, f"expected at most {limits.processes} processes, it had {processes} at once"
        )
    return None


def _crash(kind: str, message: str, record: FlightRecord | None = None) -> HandlerRaised:
    return HandlerRaised(ErrorInfo(kind=ErrorKind.CRASH, type=kind, message=message, flight_record=record))


def _how(code: int | None, limits: Limits, *, oom_killed: bool) -> tuple[str, str]:
    if code in {None, -signal.SIGKILL} and oom_killed:
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
    name = _signal_name(-code)
    by = ", sent by somebody else than its agent" if code == -signal.SIGKILL else ""
    return name, f"was killed by signal {-code} ({name}){by}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"SIG{number}"


# -- ends of a program -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended. `code` is its exit code, or a signal as a negative number; None if its supervisor
    died. `memory` is the maximum that it held; `failed` says why it could not be started."""

    code: int | None
    cpu_seconds: float = 0.0
    memory: int = 0
    failed: str | None = None

    @property
    def exited(self) -> bool:
        """True if the program exited by itself."""
        return self.code is not None and self.code >= 0


def program_failed(
    call: ProgramCall, end: ProgramEnd, limits: Limits, record: FlightRecord, *, oom_killed: bool
) -> HandlerRaised:
    """Describe a program that did not exit with one of its `ok` codes."""
    if end.code is not None:
        record = record.model_copy(update={"cpu_seconds": end.cpu_seconds, "memory_bytes": end.memory})
    if end.code is None or end.code < 0:
        return describe_crash(f"{call.argv[0]} to exit", end.code, limits, record, oom_killed=oom_killed)
    kind, why, may = EXIT_CODE, "", limits.memory_bytes
    if may is not None and end.memory >= may * _NEARLY:
        kind = OUT_OF_MEMORY
        why = f" after it had used {format_size(end.memory)} of the {format_size(may)} that it may use"
    last = (record.log or "").strip().rpartition("\n")[2]
    codes = " or ".join(map(str, call.program.ok))
    message = f"expected {call.argv[0]} to exit with {codes}, it exited with {end.code}{why}"
    info = ErrorInfo(
        kind=ErrorKind.ERROR,
        type=kind,
        message=f"{message}: {last}" if last else message,
        retryable=end.code not in call.program.no_retry_on,
        flight_record=record,
    )
    return HandlerRaised(info, call.program.delay_after(end.code))


def read_output(output: OutputFormat, stdout: bytes) -> Any:
    """Read the result that a program wrote. Raises ValueError."""
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

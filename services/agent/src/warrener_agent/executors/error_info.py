"""A failure as a person wants to read it. Pure."""

import traceback
from dataclasses import replace
from datetime import datetime, timedelta

from warrener_agent.errors import error_type_name
from warrener_agent.executors.port import HandlerRaised
from warrener_agent.failures import Cancel, Fail, HandlerSignal, RetryAfter, Snooze
from warrener_contracts.events import ErrorInfo, ErrorKind, FlightRecord
from warrener_contracts.policy import JobPolicy
from warrener_contracts.retryability import non_retryable_reason

_MESSAGE = 4_000
_STACK = 16_000
_BASES = 20


def describe_error(error: BaseException, policy: JobPolicy | None = None) -> HandlerRaised:
    """What a handler raised, or returned in place of its result. The stack begins in the handler, and its end
    is what is kept."""
    info = ErrorInfo(
        kind=ErrorKind.ERROR,
        type=error_type_name(type(error)),
        message=str(error)[:_MESSAGE],
        stack=_stack(error),
        retryable=not isinstance(error, Fail | Cancel),
        bases=_bases(type(error)),
    )
    delay = error.delay.total_seconds() if isinstance(error, RetryAfter | Snooze) else None
    if delay is None and info.retryable and policy is not None and non_retryable_reason(info, policy):
        # A supervisor of before 1.1 knows no names of errors, and believes what stands here.
        info = info.model_copy(update={"retryable": False, "by_class": True})
    return HandlerRaised(info, delay, _handler_signal(error))


def permanent_failure(kind: ErrorKind, message: str) -> HandlerRaised:
    """What no other attempt can mend."""
    return HandlerRaised(ErrorInfo(kind=kind, type=kind.value, message=message[:_MESSAGE], retryable=False))


def timeout_failure(timeout: timedelta, deadline: datetime | None) -> HandlerRaised:
    """It ran longer than its timeout, or past the job's `deadline` where that came first."""
    limit = (
        f"within its timeout of {timeout.total_seconds():g} s"
        if deadline is None
        else f"by the deadline of its job, {deadline.isoformat(timespec='seconds')}"
    )
    message = f"expected it to end {limit}, it was still running"
    return HandlerRaised(ErrorInfo(kind=ErrorKind.TIMEOUT, type=ErrorKind.TIMEOUT.value, message=message))


def heartbeat_failure(patience: float) -> HandlerRaised:
    """It gave no sign of life for too long: a timeout like any other."""
    message = f"expected a sign of life within its heartbeat_timeout of {patience:g} s, it was silent"
    return HandlerRaised(ErrorInfo(kind=ErrorKind.TIMEOUT, type=ErrorKind.TIMEOUT.value, message=message))


def start_failure(name: str, why: str) -> HandlerRaised:
    """No process could be started for it. Another agent may be better off."""
    return HandlerRaised(ErrorInfo(kind=ErrorKind.ERROR, type="CannotRun", message=f"{name}: {why}"))


def with_flight_record(raised: HandlerRaised, record: FlightRecord | None) -> HandlerRaised:
    """The same, with what was seen before the end."""
    if record is None:
        return raised
    return replace(raised, error=raised.error.model_copy(update={"flight_record": record}))


def _handler_signal(error: BaseException) -> HandlerSignal | None:
    if isinstance(error, Snooze):
        return HandlerSignal.SNOOZED
    return HandlerSignal.CANCELLED if isinstance(error, Cancel) else None


def _stack(error: BaseException) -> str | None:
    if error.__traceback__ is None:  # returned: nobody has raised it
        return None
    stack = "".join(traceback.format_exception(type(error), error, error.__traceback__.tb_next))
    return stack[-_STACK:]


def _bases(kind: type[BaseException]) -> tuple[str, ...]:
    """What `retry_on` and `no_retry` may name beside the class itself."""
    return tuple(error_type_name(base) for base in kind.__mro__[1:] if issubclass(base, Exception))[:_BASES]

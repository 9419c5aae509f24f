"""A failure as a person wants to read it. Pure."""

import traceback
from dataclasses import replace
from datetime import datetime, timedelta

from warrener_agent.executors.port import Raised
from warrener_agent.failures import Fail, RetryAfter
from warrener_contracts.events import ErrorInfo, ErrorKind, FlightRecord

_MESSAGE = 4_000
_STACK = 16_000


def failure(error: BaseException, no_retry: tuple[type[BaseException], ...]) -> Raised:
    """What a handler raised: the stack begins in the handler, and its end is what is kept."""
    own = error.__traceback__.tb_next if error.__traceback__ else None
    stack = "".join(traceback.format_exception(type(error), error, own))
    info = ErrorInfo(
        kind=ErrorKind.ERROR,
        type=_name(type(error)),
        message=str(error)[:_MESSAGE],
        stack=stack[-_STACK:],
        retryable=not isinstance(error, (Fail, *no_retry)),
    )
    return Raised(info, error.delay.total_seconds() if isinstance(error, RetryAfter) else None)


def refusal(kind: ErrorKind, message: str) -> Raised:
    """What no other attempt can mend."""
    return Raised(ErrorInfo(kind=kind, type=kind.value, message=message[:_MESSAGE], retryable=False))


def timed_out(timeout: timedelta, deadline: datetime | None) -> Raised:
    """It ran longer than its timeout, or past the job's `deadline` where that came first."""
    limit = (
        f"within its timeout of {timeout.total_seconds():g} s"
        if deadline is None
        else f"by the deadline of its job, {deadline.isoformat(timespec='seconds')}"
    )
    message = f"expected it to end {limit}, it was still running"
    return Raised(ErrorInfo(kind=ErrorKind.TIMEOUT, type=ErrorKind.TIMEOUT.value, message=message))


def cannot_run(name: str, why: str) -> Raised:
    """No process could be started for it. Another agent may be better off."""
    return Raised(ErrorInfo(kind=ErrorKind.ERROR, type="CannotRun", message=f"{name}: {why}"))


def with_record(raised: Raised, record: FlightRecord | None) -> Raised:
    """The same, with what was seen before the end."""
    if record is None:
        return raised
    return replace(raised, error=raised.error.model_copy(update={"flight_record": record}))


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"

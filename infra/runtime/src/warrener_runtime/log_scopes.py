"""Log scopes: work whose log lines share facts and are captured, whichever library logs them.

A scope is a context variable, so tasks and `asyncio.to_thread` inherit it. Inside a scope, loggers of other
packages log from the level of scopes on; outside of any, from WARNING.
"""

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol, TypeGuard, cast

import structlog
from structlog.typing import EventDict

from warrener_runtime.secrets import cut, mask
from warrener_runtime.telemetry.spans import SpanRef, innermost_span

MAX_LINE: Final = 128 * 1024
"""Characters of a captured line; more than a log line of an attempt may have."""
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class LoggedLine(NamedTuple):
    """A log record as text. `level` is None for a line that a process wrote to `logger`, an output of it."""

    at: datetime
    level: str | None
    logger: str
    text: str
    trace_id: str | None = None
    span_id: str | None = None


class LogScope(Protocol):
    """Work whose lines are captured."""

    @property
    def fields(self) -> Mapping[str, object]:
        """The facts that stand in each of its lines."""
        ...

    def hide(self, text: str) -> str:
        """Hide the secrets of this work in a text of one of its lines."""
        ...

    def capture(self, line: LoggedLine) -> None:
        """Take a line. Called in the thread that logs, one call at a time."""


current_scope: Final = ContextVar[LogScope | None]("warrener_log_scope", default=None)
_process_scope: LogScope | None = None


def set_process_scope(scope: LogScope | None) -> None:
    """Set the scope of threads that have none of their own, in a process that does one piece of work at a
    time."""
    global _process_scope  # noqa: PLW0603 - as the logging it belongs to
    _process_scope = scope


def find_scope() -> LogScope | None:
    return current_scope.get() or _process_scope


# -- records as lines --------------------------------------------------------------------------------------

OWN_FACTS: Final = frozenset(
    {
        "action",
        "attempt",
        "job_id",
        "job_type",
        "level",
        "part",
        "service",
        "span_id",
        "timestamp",
        "trace_id",
    }
)
"""Keys of a rendered record whose values come from no foreign text."""
_OWN_KEYS: Final = OWN_FACTS | {
    "_from_structlog",
    "_record",
    "event",
    "exception",
    "logger",
    "message",
    "stack",
}
"""Keys of a rendered record that have a place of their own in a line, or that say what its scope is."""
_RENDERED: Final = frozenset({"message", "level", "timestamp"})
_add_extras = structlog.stdlib.ExtraAdder()
_plain = logging.Formatter()


def line_of_record(record: logging.LogRecord) -> LoggedLine:
    extras = _add_extras(logging.root, "", {"_record": record})
    parts = [_with_facts(_message(record), extras)]
    if record.exc_info:
        parts.append(_plain.formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    at = datetime.fromtimestamp(record.created, UTC)
    return _line(at, record.levelname.lower(), record.name, "\n".join(parts), innermost_span())


def line_of_event(record: Mapping[str, Any]) -> LoggedLine:
    """Convert a record of structlog, rendered as JSON or not yet rendered."""
    parts = [_with_facts(str(record.get("event", record.get("message", ""))), record)]
    parts += [str(record[name]) for name in ("exception", "stack") if record.get(name)]
    trace_id, span_id = record.get("trace_id"), record.get("span_id")
    ref = SpanRef(trace_id, span_id, 0) if isinstance(trace_id, str) and isinstance(span_id, str) else None
    level, name = str(record.get("level", "info")), str(record.get("part") or record.get("logger") or "")
    return _line(_moment(record.get("timestamp")), level, name, "\n".join(parts), ref)


def is_rendered_record(value: object) -> TypeGuard[dict[str, Any]]:
    """True for a JSON value that is a record as this runtime writes them."""
    return isinstance(value, dict) and _RENDERED.issubset(cast("dict[str, Any]", value))


def _line(at: datetime, level: str, logger: str, text: str, ref: SpanRef | None) -> LoggedLine:
    trace_id, span_id = (ref.trace_id, ref.span_id) if ref else (None, None)
    return LoggedLine(at, level, logger, mask(cut(text, MAX_LINE)), trace_id, span_id)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - arguments that do not fit, or a __str__ that raises
        return f"{record.msg!r} (its arguments could not be formatted: {type(error).__name__})"


def _with_facts(message: str, record: Mapping[str, Any]) -> str:
    facts = [f"{name}={_fact(value)}" for name, value in record.items() if name not in _OWN_KEYS]
    return " ".join([message, *facts])


def _fact(value: object) -> str:
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001 - a __str__ of a user may raise anything
        return f"<{type(error).__name__}>"
    return repr(text) if not text or any(char.isspace() for char in text) else text


def _moment(text: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.now(UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# -- capture -----------------------------------------------------------------------------------------------


class _ScopeHandler(logging.Handler):
    """Gives each record of `logging` to its scope."""

    def emit(self, record: logging.LogRecord) -> None:
        if (scope := find_scope()) is not None:
            scope.capture(line_of_record(record))


_HANDLER: Final = _ScopeHandler()


@contextmanager
def capture_lock() -> Generator[None]:
    """Hold the lock under which lines are captured. `logging` replaces it in a forked process."""
    _HANDLER.acquire()
    try:
        yield
    finally:
        _HANDLER.release()


def install() -> None:
    """Capture records of `logging` from now on. May be called again."""
    logging.getLogger().addHandler(_HANDLER)


def capture_event(_logger: Any, _method: str, record: EventDict) -> EventDict:
    """Give a record of structlog to its scope: a processor, before the record is rendered."""
    if (scope := find_scope()) is not None:
        rendered = structlog.processors.format_exc_info(None, "", dict(record))
        with capture_lock():
            scope.capture(line_of_event(rendered))
    return record


class ScopeFilter(logging.Filter):
    """Passes records of other packages outside of scopes from WARNING on, and in scopes from `level`.

    A record below the root's level exists only because its logger was set to that level, so it passes too.
    """

    def __init__(self, own_packages: frozenset[str], level: int) -> None:
        super().__init__()
        self._own_packages, self._level = own_packages, level

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            return record.levelno >= self._level or find_scope() is None
        return find_scope() is not None or record.name.partition(".")[0] in self._own_packages

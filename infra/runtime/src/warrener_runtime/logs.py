"""Logs: every record is a sentence, an `action` that machines can search for, and its context."""

import contextlib
import json
import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Literal, Protocol, Self, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor

from warrener_runtime.secrets import mask
from warrener_runtime.telemetry.spans import current

_OUR_PACKAGES = (
    "warrener",
    "warrener_agent",
    "warrener_client",
    "warrener_runtime",
    "warrener_scheduler",
    "warrener_store",
    "warrener_supervisor",
)

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class LogLineWriter:
    """Writes structlog's lines, and never raises; the stream is looked up for each line, as others may
    replace it.

    Error handling logs. If a broken pipe raised there, the loop that reports an error would end instead.
    """

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        """Write one line and flush it; drop it if the stream is gone."""
        with contextlib.suppress(OSError, ValueError):  # a full disk, a broken pipe; a closed file
            stream = self._stream()
            stream.write(line + "\n")
            stream.flush()

    debug = info = warning = error = critical = exception = msg


class Log(Protocol):
    """A structlog logger whose every record names its action."""

    def debug(self, event: str, /, *, action: str, **context: object) -> None: ...
    def info(self, event: str, /, *, action: str, **context: object) -> None: ...
    def warning(self, event: str, /, *, action: str, **context: object) -> None: ...
    def error(self, event: str, /, *, action: str, **context: object) -> None: ...
    def exception(self, event: str, /, *, action: str, **context: object) -> None:
        """An error, with the traceback of the exception that is being handled."""
        ...

    def bind(self, **context: object) -> Self:
        """The same logger with more context, such as job_id and attempt."""
        ...


def _quiet(_logger: Any, method: str, record: EventDict) -> EventDict:
    """Drop records below WARNING in programs that configure no logs, as users of our client."""
    if LEVELS.get(method, logging.ERROR) < logging.WARNING:
        raise structlog.DropEvent
    return record


def _to_stderr(*_names: object) -> LogLineWriter:
    return LogLineWriter(lambda: sys.stderr)


if not structlog.is_configured():
    # Standard output belongs to the program. Its own configuration of structlog, before or after, wins.
    structlog.configure(processors=[_quiet, *structlog.get_config()["processors"]], logger_factory=_to_stderr)


def get_logger(name: str) -> Log:
    """Make the logger of one part. May be called at import: the configuration is looked up at each use."""
    return cast("Log", structlog.get_logger(part=name))


def configure(
    service: str,
    *,
    level: str = "info",
    format: Literal["json", "console"] = "json",  # noqa: A002 - the word of the setting
    stream: TextIO | None = None,
) -> None:
    """Send all records to `stream` (standard error): ours from `level`, those of libraries from WARNING."""
    output = stream or sys.stderr
    shared = _shared_processors(service)
    renderer = _renderer(format, output)
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level.lower()]),
        logger_factory=lambda *_names: LogLineWriter(lambda: output),
        cache_logger_on_first_use=False,  # loggers of modules must follow a later configure()
    )
    _adopt_stdlib(output, LEVELS[level.lower()], shared, renderer)


def _shared_processors(service: str) -> list[Processor]:
    def add_service(_logger: Any, _method: str, record: EventDict) -> EventDict:
        record.setdefault("service", service)
        return record

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_service,
        add_trace,
    ]


def add_trace(_logger: Any, _method: str, record: EventDict) -> EventDict:
    """Add the identifiers of the trace around this task."""
    context = current.get()
    if context.traceparent and (trace_id := context.trace_id):
        record.setdefault("trace_id", trace_id)
        record.setdefault("span_id", context.span_id)
    return record


def hide_secrets(_logger: Any, _method: str, record: EventDict) -> EventDict:
    """Mask passwords in URLs, as the last step before rendering."""
    for key, value in record.items():
        if isinstance(value, str) and "://" in value:
            record[key] = mask(value)
    return record


def _renderer(format: str, output: TextIO) -> list[Processor]:  # noqa: A002 - the word of the setting
    if format == "console":
        return [hide_secrets, structlog.dev.ConsoleRenderer(colors=output.isatty(), sort_keys=False)]
    return [
        structlog.processors.format_exc_info,
        hide_secrets,
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(serializer=json.dumps, default=str),
    ]


def _adopt_stdlib(output: TextIO, level: int, shared: list[Processor], renderer: list[Processor]) -> None:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(), _name_library],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for package in _OUR_PACKAGES:
        logging.getLogger(package).setLevel(level)
    logging.captureWarnings(capture=True)


def _name_library(_logger: Any, _method: str, record: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Give records of libraries an action: `library.<name of the logger>`."""
    source: logging.LogRecord = record["_record"]
    record.setdefault("part", source.name)
    record.setdefault("action", f"library.{source.name.split('.')[0]}")
    return record

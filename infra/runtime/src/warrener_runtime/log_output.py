"""Log lines: how records of structlog and of `logging` are filtered, enriched, rendered and written."""

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from itertools import islice
from typing import Any, Final, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor

from warrener_runtime import log_scopes
from warrener_runtime.log_scopes import LEVELS, OWN_FACTS
from warrener_runtime.secrets import HIDDEN, mask_value, shown
from warrener_runtime.telemetry.spans import innermost_span
from warrener_runtime.terminal import escape_controls

_OUR_PACKAGES = (
    "warrener",
    "warrener_agent",
    "warrener_client",
    "warrener_runtime",
    "warrener_scheduler",
    "warrener_store",
    "warrener_supervisor",
)


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


def _quiet(_logger: Any, method: str, record: EventDict) -> EventDict:
    """Drop records below WARNING in programs that configure no logs, as users of our client."""
    if LEVELS.get(method, logging.ERROR) < logging.WARNING:
        raise structlog.DropEvent
    return record


def make_logger(name: str) -> Any:
    """Make a logger of structlog, which looks the configuration up at each use."""
    return structlog.get_logger(part=name)


def configure(
    service: str,
    *,
    level: str = "info",
    format: Literal["json", "console"] = "json",  # noqa: A002 - the word of the setting
    stream: TextIO | None = None,
    scope_level: str | None = None,
) -> None:
    """Send all records to `stream` (standard error): ours from `level`, those of libraries from WARNING.

    `scope_level`: level of all records in log scopes (default: `level`). A service without scopes needs none.
    """
    output = stream or sys.stderr
    shared = _shared_processors(service)
    renderer = _renderer(format, output)
    own_level = LEVELS[level.lower()]
    in_scopes = LEVELS[scope_level.lower()] if scope_level else own_level
    gate = [_level_gate(own_level, in_scopes)] if in_scopes != own_level else []
    structlog.configure(
        processors=[*gate, *shared, log_scopes.capture_event, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(min(own_level, in_scopes)),
        logger_factory=lambda *_names: LogLineWriter(lambda: output),
        cache_logger_on_first_use=False,  # loggers of modules must follow a later configure()
    )
    _adopt_stdlib(output, shared, renderer)
    root = logging.getLogger()
    root.setLevel(min(logging.WARNING, in_scopes) if scope_level else logging.WARNING)
    root.handlers[0].addFilter(log_scopes.ScopeFilter(frozenset(_OUR_PACKAGES), in_scopes))
    for package in _OUR_PACKAGES:
        logging.getLogger(package).setLevel(own_level)
    logging.captureWarnings(capture=True)


def _level_gate(own_level: int, in_scopes: int) -> Processor:
    def drop_below_level(_logger: Any, method: str, record: EventDict) -> EventDict:
        level = own_level if log_scopes.find_scope() is None else in_scopes
        if LEVELS.get(method, logging.ERROR) < level:
            raise structlog.DropEvent
        return record

    return drop_below_level


def _shared_processors(service: str) -> list[Processor]:
    def add_service(_logger: Any, _method: str, record: EventDict) -> EventDict:
        record.setdefault("service", service)
        return record

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_service,
        add_scope,
        add_trace,
    ]


def add_trace(_logger: Any, _method: str, record: EventDict) -> EventDict:
    """Add the identifiers of the innermost span around this line, Warrener's or a handler's own."""
    if (ref := innermost_span()) is not None:
        record.setdefault("trace_id", ref.trace_id)
        record.setdefault("span_id", ref.span_id)
    return record


def add_scope(_logger: Any, _method: str, record: EventDict) -> EventDict:
    """Add the facts of the log scope around this line."""
    if (scope := log_scopes.find_scope()) is not None:
        for name, value in scope.fields.items():
            record.setdefault(name, value)
    return record


_MAX_DEPTH: Final = 5
_MAX_ITEMS: Final = 1_000


def hide_secrets(_logger: Any, _method: str, record: EventDict) -> EventDict:
    """Mask passwords at any place and cut long texts, as the last step before rendering."""
    scope = log_scopes.find_scope()

    def show(text: str) -> str:
        return shown(text) if scope is None else scope.hide(shown(text))

    for name, value in record.items():
        if name not in OWN_FACTS:
            record[name] = _shown(name, value, show, _MAX_DEPTH)
    return record


def _escape(_logger: Any, _method: str, record: EventDict) -> EventDict:
    """Escape control characters before a terminal; JSON does so itself."""
    for name, value in record.items():
        if isinstance(value, str):
            record[name] = escape_controls(value)
    return record


def _shown(name: str, value: object, show: Callable[[str], str], depth: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return mask_value(name, show(value))
    if isinstance(value, Mapping | list | tuple | set | frozenset) and not depth:
        return HIDDEN
    if isinstance(value, Mapping):
        pairs = islice(cast("Mapping[object, object]", value).items(), _MAX_ITEMS)
        return {str(key): _shown(str(key), one, show, depth - 1) for key, one in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        items = list(islice(cast("list[object]", value), _MAX_ITEMS))
        return [
            _shown(_option(before) or name, one, show, depth - 1)
            for before, one in zip(["", *items], items, strict=False)
        ]
    return mask_value(name, show(str(value)))


def _option(word: object) -> str:
    """The word before a value in the arguments of a program, if it is an option."""
    return word if isinstance(word, str) and word.startswith("--") else ""


def _renderer(format: str, output: TextIO) -> list[Processor]:  # noqa: A002 - the word of the setting
    # Exceptions are plain text before secrets are hidden: the pretty ones show local variables.
    if format == "console":
        return [
            structlog.processors.format_exc_info,
            hide_secrets,
            _escape,
            structlog.dev.ConsoleRenderer(
                colors=output.isatty(), sort_keys=False, exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    return [
        structlog.processors.format_exc_info,
        hide_secrets,
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(serializer=json.dumps, default=str),
    ]


def _adopt_stdlib(output: TextIO, shared: list[Processor], renderer: list[Processor]) -> None:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(), _name_library],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(formatter)
    logging.getLogger().handlers = [handler]


def _name_library(_logger: Any, _method: str, record: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Give records of libraries an action: `library.<name of the logger>`."""
    source: logging.LogRecord = record["_record"]
    record.setdefault("part", source.name)
    record.setdefault("action", f"library.{source.name.split('.')[0]}")
    return record


if not structlog.is_configured():
    # Standard output belongs to the program. Its own configuration of structlog, before or after, wins.
    structlog.configure(
        processors=[_quiet, *structlog.get_config()["processors"][:-1], *_renderer("console", sys.stderr)],
        logger_factory=lambda *_names: LogLineWriter(lambda: sys.stderr),
    )

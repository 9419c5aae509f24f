"""Logs: every record is a sentence, an `action` that machines can search for, and its context.

structlog is imported with the first record, or by `log_output`: most commands of the command line write none.
"""

import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol, Self, cast


class Log(Protocol):
    """A structlog logger whose every record names its action."""

    def debug(self, event: str, /, *, action: str, **context: object) -> None: ...
    def info(self, event: str, /, *, action: str, **context: object) -> None: ...
    def warning(self, event: str, /, *, action: str, **context: object) -> None: ...
    def error(self, event: str, /, *, action: str, **context: object) -> None: ...
    def exception(self, event: str, /, *, action: str, **context: object) -> None:
        """An error, with the traceback of the exception that is being handled."""

    def bind(self, **context: object) -> Self:
        """The same logger with more context, such as job_id and attempt."""
        ...


class _LazyLog:
    """A logger of structlog, made at its first record."""

    __slots__ = ("_logger", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: object = None

    def __getattr__(self, method: str) -> Any:
        if self._logger is None:
            from warrener_runtime.log_output import make_logger  # noqa: PLC0415 - see the module

            self._logger = make_logger(self._name)
        for handler in logging.root.handlers:
            if isinstance(handler, _FirstRecord):
                handler.configure_now()
        return getattr(self._logger, method)


def get_logger(name: str) -> Log:
    """Make the logger of one part. May be called at import: the configuration is looked up at each use."""
    return cast("Log", _LazyLog(name))


def configure_at_first_record(service: str, *, level: str, format: Literal["json", "console"]) -> None:  # noqa: A002 - the word of the setting
    """Do as `log_output.configure` at the first record: for a program that writes none as a rule."""

    def configure_now() -> None:
        from warrener_runtime.log_output import configure  # noqa: PLC0415 - see the module

        configure(service, level=level, format=format)

    root = logging.getLogger()
    root.handlers = [_FirstRecord(configure_now)]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


class _FirstRecord(logging.Handler):
    """Configures the logs when `logging` has a record, and passes it to the handler of the configuration."""

    def __init__(self, configure_now: Callable[[], None]) -> None:
        super().__init__()
        self.configure_now = configure_now

    def emit(self, record: logging.LogRecord) -> None:
        self.configure_now()
        if logging.getLogger(record.name).isEnabledFor(record.levelno):
            logging.getLogger().handle(record)

"""Output of `up`: lines for people or JSON lines for machines, and the log lines of its services in them."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from rich.text import Text

from warrener.render.screen import out, print_json_line

_OMITTED_FIELDS = frozenset(
    {
        "message",
        "level",
        "timestamp",
        "service",
        "logger",
        "action",
        "part",
        "trace_id",
        "span_id",
        "exception",
        "stack",
    }
)
_COLOURS = ("cyan", "magenta", "blue", "green", "yellow", "bright_magenta", "bright_cyan", "bright_blue")
_LEVELS = {"warning": "warning", "error": "error", "critical": "error"}


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log record of a service, or a line that a handler printed."""

    message: str
    level: str = "print"
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    more: tuple[str, ...] = ()
    service: str = ""


def read_line(text: str) -> LogLine:
    """Parse a JSON record of the runtime; any other text is a printed line."""
    if text.startswith("{"):
        with suppress(ValueError):
            record: object = json.loads(text)
            if isinstance(record, dict) and "message" in record:
                return _of_record(cast("dict[str, Any]", record))
    return LogLine(text)


def _of_record(record: Mapping[str, Any]) -> LogLine:
    facts = {key: value for key, value in record.items() if key not in _OMITTED_FIELDS and value is not None}
    stack = str(record.get("exception") or record.get("stack") or "")
    level, service = str(record.get("level", "info")), str(record.get("service", ""))
    return LogLine(str(record["message"]), level, facts, tuple(stack.splitlines()), service)


# -- outputs -----------------------------------------------------------------------------------------------


class ConsoleOutput(Protocol):
    """Prints what happens to the processes of `up`."""

    def event(self, event: str, message: str, *, source: str = "up", **facts: Any) -> None:
        """Print an event of `up`."""
        ...

    def line(self, source: str, line: LogLine) -> None:
        """Print a line that a service wrote."""
        ...

    def ready(self, message: list[tuple[str, str]], **facts: Any) -> None:
        """Print that all services are ready, with the lines of the banner."""
        ...


class QuietOutput:
    """Prints what `output` prints, without log records below a warning of services and of their handlers."""

    def __init__(self, output: ConsoleOutput) -> None:
        self._output = output
        self.event, self.ready = output.event, output.ready

    def line(self, source: str, line: LogLine) -> None:
        if line.level in _LEVELS or not line.service.startswith("warrener-"):
            self._output.line(source, line)


class JsonOutput:
    """One JSON object a line: `event`, `at`, `source`, `message`, and the facts."""

    def event(self, event: str, message: str, *, source: str = "up", **facts: Any) -> None:
        print_json_line(
            {"event": event, "at": datetime.now(UTC), "source": source, "message": message, **facts}
        )

    def line(self, source: str, line: LogLine) -> None:
        facts = {"level": line.level, **line.facts}
        print_json_line(
            {"event": "log", "at": datetime.now(UTC), "source": source, "message": line.message, **facts}
        )

    def ready(self, message: list[tuple[str, str]], **facts: Any) -> None:
        self.event("ready", "everything works", **facts)


class PlainOutput:
    """A line each, with the time and the source in its own colour. `width`: of the longest source."""

    def __init__(self, width: int) -> None:
        self._width, self._screen = width, out()
        self._colours: dict[str, str] = {"up": "bold"}

    def event(self, event: str, message: str, *, source: str = "up", **facts: Any) -> None:
        style = {"exited": "warning", "failed": "error"}.get(event, "")
        self._print(source, Text(message, style=style))

    def line(self, source: str, line: LogLine) -> None:
        text = Text(line.message, style=_LEVELS.get(line.level, ""))
        for name, value in line.facts.items():
            text.append(f"  {name}=", style="soft").append(str(value), style="soft")
        for more in line.more:
            text.append(f"\n{more}", style="soft")
        self._print(source, text)

    def ready(self, message: list[tuple[str, str]], **facts: Any) -> None:
        self._screen.print()
        self._screen.print(Text("  Warrener is ready", style="bold green"))
        self._screen.print()
        for name, value in message:
            self._screen.print(
                Text.assemble((f"  {name:<8}", "soft"), value) if name else Text(), soft_wrap=True
            )
        self._screen.print()

    def _print(self, source: str, text: Text) -> None:
        colour = self._colours.setdefault(source, _COLOURS[(len(self._colours) - 1) % len(_COLOURS)])
        now = datetime.now(UTC).astimezone()
        head = Text.assemble((f"{now:%H:%M:%S} ", "soft"), (f"{source:<{self._width}} ", colour))
        for line in self._lines(text, self._screen.width - len(head)):
            self._screen.print(head + line, soft_wrap=True)
            head = Text(" " * len(head))

    def _lines(self, text: Text, width: int) -> Iterable[Text]:
        """The text beside the source: wrapped on a terminal, unchanged in a file."""
        if not self._screen.is_terminal:
            return text.split("\n")
        return text.wrap(self._screen, max(width, 40))

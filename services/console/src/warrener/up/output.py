"""Output of `up`: lines for people or JSON lines for machines, the log lines of its services in them, and the
banner."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from rich.text import Text

from warrener.render.screen import out, print_json_line
from warrener_runtime.running_up import Endpoints
from warrener_runtime.secrets import mask
from warrener_store.agents.rows import JobTypeRow

_SHOWN_OTHERWISE = ("message", "level", "timestamp", "service", "exception", "stack")
_OMITTED_FIELDS = {*_SHOWN_OTHERWISE, "logger", "action", "part", "trace_id", "span_id"}
_COLOURS = ("cyan", "magenta", "blue", "green", "yellow", "bright_magenta", "bright_cyan", "bright_blue")
_MAX_TYPES_SHOWN = 8
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
    try:
        found: object = json.loads(text) if text.startswith("{") else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or "message" not in found:
        return LogLine(text)
    record = cast("dict[str, Any]", found)
    facts = {key: value for key, value in record.items() if key not in _OMITTED_FIELDS and value is not None}
    stack = str(record.get("exception") or record.get("stack") or "")
    level, service = str(record.get("level", "info")), str(record.get("service", ""))
    return LogLine(str(record["message"]), level, facts, tuple(stack.splitlines()), service)


# -- outputs -----------------------------------------------------------------------------------------------


class QuietOutput:
    """Prints what `output` prints, without log records below a warning of services and of their handlers."""

    def __init__(self, output: "JsonOutput | PlainOutput") -> None:
        self._output = output
        self.event, self.ready = output.event, output.ready

    def line(self, source: str, line: LogLine) -> None:
        if line.level in _LEVELS or not line.service.startswith("warrener-"):
            self._output.line(source, line)


class JsonOutput:
    """One JSON object a line: `event`, `at`, `source`, `message`, and the facts."""

    def event(self, event: str, message: str, *, source: str = "up", **facts: Any) -> None:
        now = datetime.now(UTC)
        print_json_line({"event": event, "at": now, "source": source, "message": message, **facts})

    def line(self, source: str, line: LogLine) -> None:
        known = {"event": "log", "at": datetime.now(UTC), "source": source, "message": line.message}
        print_json_line({**known, "level": line.level, **line.facts})  # a record may have any of these names

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
        width = max(self._screen.width - len(head), 40)
        # Beside the source, the text is wrapped on a terminal, and unchanged in a file.
        lines = text.wrap(self._screen, width) if self._screen.is_terminal else text.split("\n")
        for line in lines:
            self._screen.print(head + line, soft_wrap=True)
            head = Text(" " * len(head))


ConsoleOutput = QuietOutput | JsonOutput | PlainOutput
"""Prints events of `up`, the lines that its services wrote, and the banner once all of them are ready."""


# -- banner ------------------------------------------------------------------------------------------------


def banner_lines(
    endpoints: Endpoints,
    broker: str,
    agents: int,
    types: Sequence[JobTypeRow],
    *,
    console_url: str | None = None,
) -> list[tuple[str, str]]:
    """Endpoints and next steps, as (word, text). Pure.

    No line has a password, for a terminal may be shared or recorded; `warrener env` prints them.
    """
    store = mask(endpoints.store_url)
    if store.startswith("sqlite:///"):
        store = os.path.relpath(endpoints.store_url.removeprefix("sqlite:///"))
    names, more = ", ".join(row.name for row in types[:_MAX_TYPES_SHOWN]), len(types) - _MAX_TYPES_SHOWN
    jobs = f"{names} and {more} more: warrener job-types" if more > 0 else names
    return [
        *([("console", console_url)] if console_url else []),
        ("broker", f"{broker} at {mask(endpoints.broker_url)}"),
        ("store", store),
        ("agents", f"{agents}" if agents else "none: run `warrener agent MODULE` in this folder"),
        *([("jobs", jobs)] if types else []),
        ("", ""),
        ("request", example_request(types[0]) if types else "warrener request TYPE key=value --wait"),
        ("inspect", "warrener jobs --watch"),
        ("export", 'eval "$(warrener env)"'),
        ("stop", "Ctrl-C drains, a second one hurries"),
    ]


def example_request(row: JobTypeRow) -> str:
    """A request with every required argument of the job type."""
    required: list[str] = row.arguments_schema.get("required", [])
    words = "".join(f" {name}=…" for name in required)
    return f"warrener request {row.name}{words} --wait"

"""What `up` says: calm lines for people, or JSON lines for machines."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from warrener.render.screen import out, print_json_line
from warrener.up.log_line import LogLine

_COLOURS = ("cyan", "magenta", "blue", "green", "yellow", "bright_magenta", "bright_cyan", "bright_blue")
_LEVELS = {"warning": "odd", "error": "bad", "critical": "bad"}


class ConsoleOutput(Protocol):
    """Tells what happens to whom."""

    def event(self, event: str, message: str, *, source: str = "up", **facts: Any) -> None:
        """Something that `up` did or saw."""
        ...

    def line(self, source: str, line: LogLine) -> None:
        """A line that a member wrote."""
        ...

    def ready(self, message: list[tuple[str, str]], **facts: Any) -> None:
        """Everything works: where it is and what to do with it."""
        ...


class JsonOutput:
    """One JSON object a line: `event`, `at`, `of`, and the facts."""

    def event(self, event: str, message: str, *, source: str = "up", **facts: Any) -> None:
        print_json_line({"event": event, "at": datetime.now(UTC), "of": source, "told": message, **facts})

    def line(self, source: str, line: LogLine) -> None:
        facts = {"level": line.level, **line.facts}
        print_json_line(
            {"event": "log", "at": datetime.now(UTC), "of": source, "told": line.message, **facts}
        )

    def ready(self, message: list[tuple[str, str]], **facts: Any) -> None:
        self.event("ready", "everything works", **facts)


@dataclass
class PlainOutput:
    """A line each, with the time and who says it, in the colour that is theirs."""

    width: int

    def __post_init__(self) -> None:
        self._screen: Console = out()
        self._colours: dict[str, str] = {"up": "bold"}

    def event(self, event: str, message: str, *, source: str = "up", **facts: Any) -> None:
        style = {"died": "odd", "failed": "bad"}.get(event, "")
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
        head = Text.assemble((f"{now:%H:%M:%S} ", "soft"), (f"{source:<{self.width}} ", colour))
        for line in self._lines(text, self._screen.width - len(head)):
            self._screen.print(head + line, soft_wrap=True)
            head = Text(" " * len(head))

    def _lines(self, text: Text, width: int) -> Iterable[Text]:
        """What goes beside the name: wrapped on a terminal, as it stands in a file."""
        if not self._screen.is_terminal:
            return text.split("\n")
        return text.wrap(self._screen, max(width, 40))

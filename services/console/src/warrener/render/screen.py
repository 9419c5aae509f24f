"""Screens of the command: stdout for answers, stderr for everything else; tables and JSON on them."""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table
from rich.theme import Theme

THEME = Theme(
    {
        "good": "green",
        "error": "red",
        "warning": "yellow",
        "live": "cyan",
        "soft": "bright_black",
        "key": "bold",
        "table.header": "bright_black",
    }
)

WIDE = 140  # columns; whole ids fit beside the rest
_WIDTH_OF_FILES = 200  # columns
GAP = 2  # columns between the columns of a table
_FOLDED = frozenset({"bound to", "differs", "verdict", "queues", "retries after"})
"""Columns that may take several lines."""
_COPIED = frozenset({"job", "cause", "redrive", "agent", "incident", "breaker", "schedule", "example"})
"""Columns of names that other commands take: never cut."""
_PROSE = frozenset({"why", "about", "said", "what", "verdict", "differs", "detail", "retries after"})
"""Columns of texts, which are cut first: pages have them whole."""
_MIN_WIDTH = 3  # columns of a value that is cut


class PipedScreen(Console):
    """Leaves a closed pipe to the command, which ends quietly."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class AnswerScreen(PipedScreen):
    """Cuts no line: a table that is wider than its terminal is wrapped by it, so that names can be copied."""

    def print(self, *objects: Any, crop: bool | None = None, **options: Any) -> None:
        super().print(*objects, crop=bool(crop), **options)


class AnswerTable(Table):
    """Fits its width by cutting texts, then other values, and never a name that is there to be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [_natural_width(column) for column in self.columns]
        excess = sum(widths) + GAP * (len(widths) - 1) - options.max_width
        excess = self._cut([column.header in _PROSE for column in self.columns], widths, excess)
        excess = self._cut([column.header not in _COPIED for column in self.columns], widths, excess)
        for column, width in zip(self.columns, widths, strict=True):
            if column.header in _COPIED:
                column.min_width = width
            elif width < _natural_width(column):
                column.max_width = width
        yield from super().__rich_console__(console, options.update_width(options.max_width + max(excess, 0)))

    def _cut(self, cuttable: Sequence[bool], widths: list[int], excess: int) -> int:
        """Make these columns narrower, the widest first; return the width that is still too much."""
        while excess > 0:
            wide = [
                index
                for index, column in enumerate(self.columns)
                if cuttable[index] and widths[index] > max(_MIN_WIDTH, cell_len(str(column.header)))
            ]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
            excess -= 1
        return excess


def _natural_width(column: Column) -> int:
    lines = [line for cell in (column.header, *column.cells) for line in str(cell).splitlines()]
    width = max(map(cell_len, lines), default=0)
    return width if column.max_width is None else min(width, column.max_width)


def out() -> Console:
    """Console for answers, made for each use: tests and pipes replace stdout.

    Anything but a terminal is as wide as COLUMNS says, else wide enough to cut nothing.
    """
    screen = AnswerScreen(theme=THEME, highlight=False)
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _WIDTH_OF_FILES
    return screen


def err() -> Console:
    """Console for messages beside the answer."""
    return PipedScreen(theme=THEME, highlight=False, stderr=True)


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Make an empty table without lines; columns in `right` are right-aligned."""
    made = AnswerTable(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="soft")
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold" if column in _FOLDED else "ellipsis",
            no_wrap=column not in _FOLDED,
        )
    return made


def facts_grid() -> Table:
    """Make an empty grid of names and values."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="soft")
    grid.add_column()
    return grid


def one_line(text: str) -> str:
    """The text without its line ends."""
    return " ".join(text.split())


def jsonable(value: Any) -> Any:
    """Convert rows and events to JSON data."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - not for tables

    return to_jsonable_python(value, fallback=dict)  # pydantic converts all but read-only mappings


def print_json(value: Any) -> None:
    """Print one JSON document."""
    text = json.dumps(jsonable(value), indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_json_line(value: Any) -> None:
    """Print one line of a stream of JSON."""
    sys.stdout.write(json.dumps(jsonable(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()

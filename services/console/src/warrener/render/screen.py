"""Screens of the command: stdout for answers, stderr for everything else; tables and JSON on them."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Span, Text
from rich.theme import Theme

from warrener_runtime.terminal import escape_controls, escape_json

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
_FOLDED = frozenset({"bound to", "differs", "verdict", "queues", "retries after", "arguments"})
"""Columns that may take several lines."""
_COPIED = frozenset(
    {
        *("job", "type", "job_type", "cause", "fingerprint", "redrive", "agent", "incident", "breaker"),
        *("schedule", "example", "queue", "queues", "message", "reason", "run", "subject", "pid"),
    }
)
"""Columns of names that other commands take: never cut."""
_NEEDED = _COPIED | {"state"}  # columns that are neither cut nor dropped
_PROSE = frozenset(
    {"why", "answer", "about", "said", "what", "verdict", "differs", "detail", "retries after"}
)
"""Columns of texts, which are cut first: pages have them whole."""
_MIN_WIDTH, _MIN_PROSE = 3, 10  # columns of a value that is cut, and of a text


class PipedScreen(Console):
    """Shows foreign text as text: markup is read in what is printed directly, never in a cell, and control
    characters are escaped everywhere. Leaves a closed pipe to the command, which ends quietly."""

    def __init__(self, **options: Any) -> None:
        common: dict[str, Any] = {"theme": THEME, "highlight": False, "markup": False}
        super().__init__(**common | options)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: Any, markup: bool | None = None, **options: Any) -> None:
        shown = [
            self.render_str(one, markup=markup is not False) if isinstance(one, str) else one
            for one in objects
        ]
        super().print(*shown, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        # Before rich drops some of them.
        return super().render_str(escape_controls(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        yield from super().render(_escaped(renderable), options)


def _escaped(renderable: RenderableType) -> RenderableType:
    """A text with its control characters escaped, and the styles where they were; others as they are."""
    if not isinstance(renderable, Text) or (shown := escape_controls(plain := renderable.plain)) == plain:
        return renderable
    made = renderable.copy()
    made.plain = shown
    made.spans = [
        Span(len(escape_controls(plain[: one.start])), len(escape_controls(plain[: one.end])), one.style)
        for one in renderable.spans
    ]
    return made


class AnswerScreen(PipedScreen):
    """Cuts no line: a table that is wider than its terminal is wrapped by it, so that names can be copied."""

    def print(self, *objects: Any, crop: bool | None = None, **options: Any) -> None:
        super().print(*objects, crop=bool(crop), **options)


class AnswerTable(Table):
    """Fits its width: cuts texts, then other values, and drops columns that leave no room. Never cuts a
    number, or a name that is there to be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = list(self.columns)
        while (excess := _excess(map(_min_width, columns), options.max_width)) > 0:
            droppable = [column for column in columns if column.header not in _NEEDED]
            if not droppable:
                break
            columns.remove(min(reversed(droppable), key=_importance))
        widths = _fit(columns, options.max_width)
        shown = copy(self)
        shown.columns = [
            replace(column, _index=index, width=width)
            for index, (column, width) in enumerate(zip(columns, widths, strict=True))
        ]
        yield from Table.__rich_console__(
            shown, console, options.update_width(options.max_width + max(excess, 0))
        )


def _excess(widths: Iterable[int], max_width: int) -> int:
    """The width that columns of these widths have too much."""
    found = [*widths]
    return sum(found) + GAP * (len(found) - 1) - max_width


def _importance(column: Column) -> int:
    """The order in which columns are dropped: those without values first, texts last."""
    if not any(map(str, column.cells)):
        return 0
    return 2 if column.header in _PROSE else 1


def _fit(columns: Sequence[Column], max_width: int) -> list[int]:
    """Make texts narrower, the widest first, then other values; return the widths."""
    widths = [_natural_width(column) for column in columns]
    smallest = [_min_width(column) for column in columns]
    for is_prose in (True, False):
        chosen = [index for index, one in enumerate(columns) if (one.header in _PROSE) is is_prose]
        while _excess(widths, max_width) > 0:
            wide = [index for index in chosen if widths[index] > smallest[index]]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _natural_width(column: Column) -> int:
    lines = [line for cell in (column.header, *column.cells) for line in str(cell).splitlines()]
    return max(map(cell_len, lines), default=0)


def _min_width(column: Column) -> int:
    natural = _natural_width(column)
    if column.header in _COPIED and column.header in _FOLDED:
        return max(cell_len(word) for cell in (column.header, *column.cells) for word in str(cell).split())
    if column.header in _NEEDED or column.justify == "right":
        return natural
    needed = _MIN_PROSE if column.header in _PROSE else _MIN_WIDTH
    return min(natural, max(needed, cell_len(str(column.header))))


def out() -> Console:
    """Console for answers, made for each use: tests and pipes replace stdout.

    Anything but a terminal is as wide as COLUMNS says, else wide enough to cut nothing.
    """
    screen = AnswerScreen()
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _WIDTH_OF_FILES
    return screen


def err() -> Console:
    return PipedScreen(stderr=True)


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


def facts_grid(facts: Iterable[tuple[str, RenderableType]] = ()) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="soft")
    grid.add_column()
    for name, value in facts:
        grid.add_row(name, value)
    return grid


def one_line(text: str) -> str:
    return " ".join(text.split())


def jsonable(value: Any) -> Any:
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - not for tables

    return to_jsonable_python(value, fallback=dict)  # pydantic converts all but read-only mappings


def print_json(value: Any) -> None:
    _write_json(value, 2 if sys.stdout.isatty() else None)


def print_json_line(value: Any) -> None:
    _write_json(value, None)


def _write_json(value: Any, indent: int | None) -> None:
    sys.stdout.write(escape_json(json.dumps(jsonable(value), indent=indent, ensure_ascii=False)) + "\n")
    sys.stdout.flush()

"""Screens of the command: stdout for answers, stderr for everything else; tables and JSON on them."""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.table import Table
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


def out() -> Console:
    """Console for answers, made for each use: tests and pipes replace stdout.

    Anything but a terminal is as wide as COLUMNS says, else wide enough to cut nothing.
    """
    screen = Console(theme=THEME, highlight=False)
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _WIDTH_OF_FILES
    return screen


def err() -> Console:
    """Console for messages beside the answer."""
    return Console(theme=THEME, highlight=False, stderr=True)


def is_wide() -> bool:
    """True if whole ids fit beside the rest."""
    return out().width >= WIDE


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Make an empty table without lines; columns in `right` are right-aligned."""
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="soft")
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

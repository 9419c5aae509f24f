"""stdout for answers, stderr for everything else."""

import json
import os
import sys
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.theme import Theme

THEME = Theme(
    {
        "good": "green",
        "bad": "red",
        "odd": "yellow",
        "live": "cyan",
        "soft": "bright_black",
        "key": "bold",
        "table.header": "bright_black",
    }
)

WIDE = 140  # columns: whole ids fit beside the rest
_PAPER = 200  # columns: what is read by a program or from a file has no edge to stop at


def out() -> Console:
    """For answers. Made anew each time: tests and pipes change what stdout is.

    What is not a terminal is as wide as COLUMNS says, else so wide that nothing need be cut.
    """
    screen = Console(theme=THEME, highlight=False)
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _PAPER
    return screen


def err() -> Console:
    """For what people are told beside the answer."""
    return Console(theme=THEME, highlight=False, stderr=True)


def is_wide() -> bool:
    """Whether whole ids fit beside the rest."""
    return out().width >= WIDE


def jsonable(value: Any) -> Any:
    """Rows and events as JSON data."""
    return to_jsonable_python(value, fallback=dict)  # pydantic knows all but read-only mappings


def print_json(value: Any) -> None:
    """One JSON document."""
    text = json.dumps(jsonable(value), indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_json_line(value: Any) -> None:
    """One line of a stream of JSON."""
    sys.stdout.write(json.dumps(jsonable(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()

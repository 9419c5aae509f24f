"""The journal of a run: what only the harness knows, written as it happens. With it and the folder of
PostgreSQL a run whose harness was killed can still be judged (`rescue`)."""

import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from tools.chaos.history import Destroyed, FaultFact, Freeze, Request, Schedule, Unmended

_NAME = "journal.jsonl"
_TYPES: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Destroyed, FaultFact, Freeze, Request, Schedule, Unmended)
}

Fact = Destroyed | FaultFact | Freeze | Request | Schedule | Unmended


class Journal:
    """Appends to the journal in a folder."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / _NAME).open("a", buffering=1)

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def write(self, fact: Fact) -> None:
        """Append a fact."""
        self._line(type(fact).__name__, asdict(fact))

    def note(self, what: str, value: Any) -> None:
        """Append anything else, under a name."""
        self._line(what, value)

    def _line(self, what: str, value: Any) -> None:
        self._file.write(json.dumps([what, value], default=sorted) + "\n")


def read_journal(folder: Path) -> dict[str, list[Any]]:
    """The facts by the names of their types, and notes by theirs; a last line that was cut is passed over."""
    found: dict[str, list[Any]] = defaultdict(list)
    for line in (folder / _NAME).read_text().splitlines():
        try:
            what, value = json.loads(line)
        except ValueError:
            continue
        found[what].append(_TYPES[what].validate_python(value) if what in _TYPES else value)
    return found

"""What is deleted is written to JSON Lines files first: a file a day and kind."""

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic_core import to_json


class JsonLinesExporter:
    """Appends to `<kind>-<day>.jsonl` in a folder. A row may stand there twice; none is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def write(self, kind: str, rows: Sequence[Any], now: datetime) -> None:
        """Returns when the disk has them. Raises OSError where it cannot, and then nothing may be deleted."""
        path = self._folder / f"{kind}-{now:%Y-%m-%d}.jsonl"
        await asyncio.to_thread(_append, path, b"".join(_line(row) for row in rows))


def _line(row: Any) -> bytes:
    return to_json(row, bytes_mode="base64", inf_nan_mode="constants", serialize_unknown=True) + b"\n"


def _append(path: Path, lines: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("ab") as file:
        if _is_torn(path):  # its writer was killed; the row is written again as a whole
            file.write(b"\n")
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    if new:
        _sync_folder(path.parent)


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)

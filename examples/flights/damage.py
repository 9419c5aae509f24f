"""Three files, damaged on purpose, each in another way."""

import os
from pathlib import Path


def damage(files: list[Path]) -> dict[Path, str]:
    """Spoil three of the files, spread over the year; returns which, and how."""
    truncated, headless, endless = (files[len(files) * part // 4] for part in (1, 2, 3))
    whole = truncated.read_bytes()
    truncated.write_bytes(whole[: whole.rindex(b",", 0, len(whole) // 2)])
    lines = headless.read_text().splitlines(keepends=True)
    headless.write_text("".join(["date;airline;number\n", *lines[1:]]))
    endless.unlink()
    os.mkfifo(endless)  # opens like a file, and never says a word
    return {truncated: "truncated", headless: "wrong header", endless: "hangs"}

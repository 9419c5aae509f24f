"""On which line of a TOML file a table or a key stands, as far as can be told without a parser. Pure."""

import re
from collections.abc import Iterator


class TomlLines:
    """Of a text with tables of arrays `[[name]]`."""

    def __init__(self, text: str, name: str) -> None:
        self._lines = text.splitlines()
        header = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
        self._begins = [number for number, line in enumerate(self._lines) if header.match(line)]

    def find_line(self, place: int | None, key: str = "") -> int | None:
        """The line, from 1, of a key in the `place`-th table, else of the table; None: it cannot be told.

        Without a place it is looked for at the top. Of a key such as `choices.grace` its parts are tried, the
        last one first.
        """
        begin, end = self._span(place)
        for part in reversed(key.split(".")) if key else ():
            if (found := next(self._lines_with(part, begin, end), None)) is not None:
                return found + 1
        return None if place is None or not self._begins else begin + 1

    def _span(self, place: int | None) -> tuple[int, int]:
        if place is None:
            return 0, self._begins[0] if self._begins else len(self._lines)
        if place >= len(self._begins):
            return 0, len(self._lines)
        following = self._begins[place + 1 :]
        return self._begins[place], following[0] if following else len(self._lines)

    def _lines_with(self, key: str, begin: int, end: int) -> Iterator[int]:
        word = re.compile(rf"""(^|[\s{{,.\["']){re.escape(key)}["']?\s*([=.\]]|$)""")
        return (number for number in range(begin, end) if word.search(self._lines[number]))

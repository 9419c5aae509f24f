"""Find the lines of keys in a TOML document, and salvage the tables of one that has syntax errors. Pure."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

DocumentPath = tuple[str | int, ...]

_MAX_ERRORS = 20
_TOKEN = re.compile(
    r"""(?P<skipped>[ \t\r]+|\#[^\n]*)
    |(?P<text>\"{3}(?:\\.|[^\\])*?(?:\"{3,5}|\\?\Z)|'{3}.*?(?:'{3,5}|\Z)
        |"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\\?\Z)|'[^'\n]*(?:'|(?=\n)|\Z))
    |(?P<sign>[\[\]{}=,.\n])
    |(?P<bare>[^\s\[\]{}=,.\#"']+|.)""",
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(r"""\s*\[\[?[\w\s."'-]+\]\]?\s*(?:\#.*)?""")
_PLACE = re.compile(r"\(at line (\d+), column \d+\)")


class SyntaxProblem(NamedTuple):
    """A place at which a document is no TOML."""

    line: int | None
    problem: str


class _Token(NamedTuple):
    text: str
    line: int
    quoted: bool


class SalvagedDocument(NamedTuple):
    """A document without the contents of its tables with syntax errors."""

    contents: dict[str, Any]
    text: str
    problems: list[SyntaxProblem]
    emptied: frozenset[int]
    """The lines of the headers whose tables are empty for that reason."""


def salvage(text: str) -> SalvagedDocument:
    """Parse a document; empty the tables with syntax errors."""
    problems: list[SyntaxProblem] = []
    emptied: set[int] = set()
    lines = text.split("\n")
    while True:
        try:
            contents = tomllib.loads("\n".join(lines))
        except tomllib.TOMLDecodeError as error:
            place = _PLACE.search(str(error))
            problems.append(SyntaxProblem(int(place[1]) if place else None, str(error)))
        else:
            return SalvagedDocument(contents, "\n".join(lines), problems, frozenset(emptied))
        header = _empty_table(lines, problems[-1].line or len(lines))
        if header is None or len(problems) == _MAX_ERRORS:
            return SalvagedDocument({}, "", problems, frozenset())
        emptied.add(header)


def _empty_table(lines: list[str], wrong: int) -> int | None:
    """Blank the table around this line, but for a header that is right: later tables keep their numbers.

    Returns the line of the header; None if there was nothing to blank."""
    last = min(wrong, len(lines)) - 1
    while last > 0 and not lines[last].strip():
        last -= 1
    begin = next((place for place in range(last, -1, -1) if _HEADER.fullmatch(lines[place])), 0)
    end = next(
        (place for place in range(last + 1, len(lines)) if _HEADER.fullmatch(lines[place])), len(lines)
    )
    first = begin + 1 if begin < last and _HEADER.fullmatch(lines[begin]) else begin
    filled = any(lines[place].strip() for place in range(first, end))
    lines[first:end] = [""] * (end - first)
    return begin + 1 if filled else None


def locate_keys(text: str) -> Mapping[DocumentPath, int]:
    """Return the line of each table, key and element of an array, counted from 1. The text must be TOML."""
    return _KeyLocator(text).run()


class _KeyLocator:
    """Reads the tokens of a document from the first to the last."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._place = 0
        self._tables: dict[DocumentPath, int] = {}  # arrays of tables: the number of the last one
        self._lines: dict[DocumentPath, int] = {}

    def run(self) -> Mapping[DocumentPath, int]:
        table: DocumentPath = ()
        while (token := self._peek()) is not None:
            if token.text == "\n":
                self._place += 1
            elif token.text == "[" and not token.quoted:
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _peek(self) -> _Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _at(self, *signs: str) -> bool:
        token = self._peek()
        return token is not None and not token.quoted and token.text in signs

    def _take(self, sign: str) -> bool:
        found = self._at(sign)
        self._place += found
        return found

    def _header(self) -> DocumentPath:
        line = self._tokens[self._place].line
        self._take("[")
        is_array = self._take("[")
        keys = self._keys()
        while self._peek() is not None and not self._at("\n"):
            self._place += 1
        path: DocumentPath = ()
        for key in keys[:-1]:
            path = self._in_array((*path, key))
        path = (*path, *keys[-1:])
        if is_array:
            self._tables[path] = self._tables.get(path, -1) + 1
            path = self._in_array(path)
        self._lines.setdefault(path, line)
        return path

    def _in_array(self, path: DocumentPath) -> DocumentPath:
        return (*path, self._tables[path]) if path in self._tables else path

    def _keys(self) -> list[str]:
        keys: list[str] = []
        while (token := self._peek()) is not None and (token.quoted or token.text not in "[]{}=,\n"):
            self._place += 1
            if token.quoted:
                keys.append(token.text[1:-1])
            elif token.text != ".":
                keys.append(token.text)
        return keys

    def _pair(self, table: DocumentPath) -> None:
        begin = self._place
        line = self._tokens[begin].line
        path = (*table, *self._keys())
        self._lines.setdefault(path, line)
        if self._take("="):
            self._value(path)
        elif self._place == begin:  # nothing that a key may begin with
            self._place += 1

    def _value(self, path: DocumentPath) -> None:
        if self._take("["):
            number = 0
            while self._inside("]"):
                begin = self._place
                self._lines.setdefault((*path, number), self._tokens[begin].line)
                self._value((*path, number))
                self._place += self._place == begin  # nothing that a value may begin with
                number += 1
        elif self._take("{"):
            while self._inside("}"):
                self._pair(path)
        else:
            while self._peek() is not None and not self._at(",", "]", "}", "\n"):
                self._place += 1

    def _inside(self, end: str) -> bool:
        """Skip to the next element; False behind the last one."""
        while self._at(",", "\n"):
            self._place += 1
        return self._peek() is not None and not self._take(end)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    line = 1
    for found in _TOKEN.finditer(text):
        if found["skipped"] is None:
            tokens.append(_Token(found[0], line, found["text"] is not None))
        line += found[0].count("\n")
    return tokens

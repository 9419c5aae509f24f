"""The elements of a JSON array, each as the text that stood there."""

from collections.abc import Iterator
from functools import cached_property
from json import JSONDecoder

_WHITESPACE = " \t\n\r"
# Numbers are left as text: what is looked for is where a value ends, not what it is.
_DECODER = JSONDecoder(strict=False, parse_int=str, parse_float=str)


class JsonArrayElements:
    """The elements of the array in `body`; looked for when the first of them is asked for, and once.

    `body` must have been read as an array before.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __getitem__(self, index: int) -> bytes:
        return self.texts[index]

    @cached_property
    def texts(self) -> list[bytes]:
        """All of them, in order."""
        text = self.body.decode(errors="surrogateescape")
        return [text[at:end].encode(errors="surrogateescape") for at, end in _element_bounds(text)]


def has_more_elements_than(body: bytes, limit: int) -> bool:
    """True if the JSON array in `body` has more than `limit` elements.

    One element is read at a time and none is kept, and reading stops at the limit; False for other JSON and
    for what is none. A body that cannot have that many is recognised by its commas alone.
    """
    if body.count(b",") < limit:
        return False
    text = body.decode(errors="surrogateescape")
    try:
        return text[_skip_whitespace(text, 0)] == "[" and any(
            index >= limit for index, _ in enumerate(_element_bounds(text))
        )
    except (ValueError, IndexError, RecursionError):
        return False  # not JSON; its reader says where


def _element_bounds(text: str) -> Iterator[tuple[int, int]]:
    """Where each element of the array in `text` begins and ends."""
    at = _skip_whitespace(text, text.index("[") + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _skip_whitespace(text, end)
        if text[at] == ",":
            at = _skip_whitespace(text, at + 1)


def _skip_whitespace(text: str, at: int) -> int:
    while text[at] in _WHITESPACE:
        at += 1
    return at
